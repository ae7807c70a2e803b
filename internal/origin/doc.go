// Package origin decides by Host and Origin which requests an HTTP address serves, and
// tells requests of local programs from those that a proxy forwarded. It believes the headers
// of trusted proxies alone.
//
// A page that a user merely visits can send requests to any address that the browser
// reaches. By rebinding its own name to such an address it can also read the answers.
// Host and Origin tell those requests apart (2025-11-25 and 2026-07-28,
// basic/transports, "Security Warning"). The addresses of MCP and of administration
// share the decision.
package origin
