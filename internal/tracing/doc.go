// Package tracing makes spans of calls, and sends traces, metrics and log lines to an
// OpenTelemetry collector by OTLP.
//
// A [Tracer] keeps the spans of one call together until the call has ended, and then decides
// whether to export them. It exports them if the client's trace is sampled, by the configured ratio
// for traces that begin here, or if the call failed or was slow. The memory of a call is bounded.
//
// Attributes follow the semantic conventions for MCP, JSON-RPC and GenAI. No attribute has an
// argument, a result, a message of an error, a session id, or a credential.
//
// Trace contexts are those of W3C Trace Context and W3C Baggage. The _meta of a request wins over
// the headers of the HTTP request that carried it (SEP-414; OpenTelemetry, semantic conventions for
// MCP, "Context propagation"); the span then has a link to the context of the headers.
package tracing
