// Package origin decides by Host and Origin which requests an HTTP address serves.
//
// A page that a user merely visits can send requests to any address that the browser
// reaches, and by rebinding its own name to such an address it can read the answers;
// the two headers are what tells those requests apart (2025-11-25 and 2026-07-28,
// basic/transports, "Security Warning"). The addresses of MCP and of administration
// share the decision.
package origin
