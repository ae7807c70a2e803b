// Package streamable is the transport over streamable HTTP of both eras. Its dialer finds
// out which era a server speaks, and falls back to HTTP+SSE for the oldest servers.
//
// A legacy conversation outlives the sessions of the server: when the server has
// forgotten one, the next is opened and the calls go on. A modern conversation has no
// session. A server that speaks both eras gets each client's calls in the era of that
// client.
package streamable
