// Command bench shows how fast the gateway is, beside the alternatives.
//
// A workload is a set of paths that are measured back to back in each turn, such
// as the same tools/call through httputil.ReverseProxy, nginx and the gateway.
// The table of workloads is in table.go. Its paths are:
//
//   - direct, to a minimal upstream that does as little as possible;
//   - reverse, through net/http/httputil's ReverseProxy, which does not read the
//     messages: the cost of any HTTP proxy written in Go;
//   - nginx, through Debian's nginx as a plain proxy with kept connections;
//   - typed, through a proxy made with the MCP Go SDK, which decodes and encodes
//     each message: the cost of the simplest gateway;
//   - gateway, through the gateway's own binary, built and configured as a user
//     would, with a prefix on the name of the tool, which it must rewrite.
//
// Some workloads have paths of their own, such as a server of files.
//
// All servers are separate processes on loopback (the program starts itself in a
// role), so that each has its own garbage collector and scheduler. Only one path
// is under load at a time. Every client has its own keep-alive connection and, in
// the legacy era, its own session. Every answer is checked; a call's answer
// against the nonce of the call. One wrong answer fails the workload and the run.
//
// Figures of one machine at one time are good for ratios only. A ratio is formed
// within each turn, from figures that were taken seconds apart, and the report
// has the median and the range of the turns. Processor time for one call hardly
// depends on the rest of the machine, unlike the other figures; it is exact on
// Linux and 0 elsewhere. Typical uses:
//
//	go run ./bench
//	go run ./bench -workload json-1k,eras -turns 9
//	go run ./bench -workload json-1m -compare /tmp/gateway-before
//	go run ./bench -scale 100 -turns 1 -duration 100ms
//	go run ./bench -json bin/bench.json && go run ./bench -render bin/bench.json
package main
