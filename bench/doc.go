// Command bench measures what the gateway costs, side by side with what it
// would be replaced by.
//
// In one run, in turn and repeated, sixteen clients make the same tools/call
// with a result of 1 KiB
//
//   - direct, to a minimal upstream that does as little as it can;
//   - reverse, through net/http/httputil's ReverseProxy, which does not look
//     into a message: what any HTTP proxy written in Go costs;
//   - typed, through a proxy made with the MCP Go SDK, which decodes and encodes
//     each message: what the obvious gateway costs;
//   - gateway, through the gateway's own binary, built and configured as a user
//     would, with the name of the tool prefixed and so rewritten.
//
// The upstream and each proxy are processes of their own (the program starts
// itself in a role), so that everyone pays for their own collector and
// scheduler; only one of the paths is under load at a time. Every client has
// its own keep-alive connection and, in the legacy era, its own session. Every
// answer is checked against a nonce of its call, and one wrong answer fails the
// whole run.
//
// Figures of one machine at one time are good for ratios only; the ratios are
// of the medians over the rounds. Typical uses:
//
//	go run ./bench
//	go run ./bench -require-reverse 1.0 -require-typed 3.0
//	go run ./bench -only direct,reverse,typed -era modern
//
// It is a measurement of one path, not a load test: errors, streams and large
// messages are no part of it.
package main
