// Package sse is the transport over HTTP+SSE of revision 2024-11-05: the server sends
// everything on one stream, and the gateway posts to the URL that the stream begins with.
// The conversation lasts as long as the stream.
package sse
