// Package httpconn has the common parts of the transports over HTTP: connections,
// requests with credentials and redirects, responses that are JSON or an event stream,
// and the liveness check of a server.
//
//	exchange ──▶ Endpoint (URL, headers, credentials) ──▶ pool (connections) ──▶ server
//
// # Guarantees
//
// Configured headers and credentials go to the configured origin only. A request is
// sent again only after a refusal of its credentials. Closing the pool ends every
// request.
//
// # Concurrency
//
// An endpoint and its pool may be used concurrently; an exchange belongs to the
// goroutine of its request.
package httpconn
