// Package endpoint decides which profile a request gets.
//
//	path, Host ──Find──▶ Endpoint ──Choose──▶ profile
//	                        │          ▲
//	                        │          └── groups and pins of the principal
//	                        └── the resource that access tokens must be for
//
// MCP is served at /mcp and, for each profile, at /mcp/NAME. At /mcp the Host names the
// profile, or else the groups of the principal do, or else it is the default profile. A
// principal may be pinned to profiles, and then gets no others.
//
// # Guarantees
//
// A path is an endpoint only in exactly one spelling. A [Set] is immutable, and finds and
// chooses without an allocation.
//
// The audience of a token is read like the URL of a request, so a token for one endpoint is
// a token for the requests to that endpoint.
package endpoint
