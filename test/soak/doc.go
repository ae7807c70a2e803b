// Package soak sends random calls through a gateway, any number of them, and asserts that nothing is lost, mixed up or leaked.
//
// The real gateway runs inside the test, on loopback. Its steady upstreams are four scripted servers, one for each era over streamable HTTP and over stdio
// (the latter are child processes of this test binary). Two more are lazy: they are called seldom and stopped between calls, and no call of them fails.
// Three more fail in outages: they answer with HTTP errors, garbage, half answers or too large ones, hang, reset connections or exit, until their circuit
// breaker is open, and must be back after that. A call of them that the gateway calls retryable is sent again.
//
// Scripted clients of both eras make a random mix of calls: simple calls, progress, questions one after another and several at once, answers that are
// missing, too many, malformed or sent twice, clients that never return, cancellations, disconnects, streams resumed with Last-Event-ID, tasks, and
// subscriptions. Now and then a server is restarted during all that.
//
// Every call has a unique token, which is part of every message of the call, in both directions. A receiver thus detects messages of other calls:
//
//   - a call that was not cancelled is answered once, a cancelled one at most once;
//   - every answer, question, progress notification and update belongs to its call; the server gets the answers to its own questions;
//   - no call is sent twice to a server;
//   - calls fail only in an outage, or while their server is restarted;
//   - every outage that should opens the circuit breaker; at the end all are closed;
//   - at the end no call is parked, and the maximum number of calls can be parked; no session, stream, request or goroutine is left.
//
// TestSoakReplicas does the same with three gateways that share a Redis: each request goes to the next one. The Redis ends and comes back empty, or is
// paused. While it is away, clients send again what the gateways call retryable, and only calls that need two gateways may fail.
//
// A printed seed determines the choices, but not how the goroutines interleave. -calls sets the number of calls, -seed the seed.
package soak
