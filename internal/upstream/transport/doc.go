// Package transport lists the transports to upstream servers and makes their dialers.
//
// Each transport is a package in a folder below this one, with one line in the table of
// this package:
//
//	stdio       a child process, over its standard streams  ─┐
//	inproc      a server inside the process, over pipes     ─┴─▶ line
//	streamable  streamable HTTP of both eras                ─┐
//	sse         HTTP+SSE of 2024-11-05                      ─┴─▶ httpconn
//
// Packages line and httpconn hold what two transports have in common. A transport knows
// the contract in package protocol, and no connector.
package transport
