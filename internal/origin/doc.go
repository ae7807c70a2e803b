// Package origin decides by Host and Origin which requests an HTTP address serves, and
// distinguishes requests of local programs from those that a proxy forwarded. It trusts only
// the headers of trusted proxies.
//
// A page in a browser can send requests to any address that the browser can reach. If it
// rebinds its own name to such an address, it can also read the answers. Host and Origin
// identify such requests (2025-11-25 and 2026-07-28, basic/transports, "Security Warning").
// The addresses of MCP and of administration share the decision.
package origin
