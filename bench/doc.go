// Command bench measures the cost of the gateway, side by side with the
// alternatives.
//
// In one run sixteen clients make the same tools/call with a result of 1 KiB on
// each of four paths. The paths run in turn, several times:
//
//   - direct, to a minimal upstream that does as little as possible;
//   - reverse, through net/http/httputil's ReverseProxy, which does not read the
//     messages: the cost of any HTTP proxy written in Go;
//   - typed, through a proxy made with the MCP Go SDK, which decodes and encodes
//     each message: the cost of the simplest gateway;
//   - gateway, through the gateway's own binary, built and configured as a user
//     would, with a prefix on the name of the tool, which it must rewrite.
//
// The upstream and each proxy are separate processes (the program starts itself
// in a role), so that each has its own garbage collector and scheduler. Only one
// path is under load at a time. Every client has its own keep-alive connection
// and, in the legacy era, its own session. Every answer is checked against a
// nonce of its call. One wrong answer fails the whole run.
//
// Figures of one machine at one time are good for ratios only. The ratios are of
// the medians over the rounds. Typical uses:
//
//	go run ./bench
//	go run ./bench -require-reverse 1.0 -require-typed 3.0
//	go run ./bench -only direct,reverse,typed -era modern
//
// The program measures one path. It is not a load test: it does not cover
// errors, streams and large messages.
package main
