// Package streamable is the transport over streamable HTTP of both eras. Its dialer
// detects the era of a server. It takes a fallback for servers that speak only HTTP+SSE.
//
// A legacy conversation outlives the sessions of the server: when the server has
// forgotten a session, the transport opens a new one and calls continue. A modern
// conversation has no session. A server that speaks both eras gets each client's calls
// in the era of that client.
package streamable
