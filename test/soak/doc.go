// Package soak puts random calls through a gateway, any number of them, and asserts that nothing is lost, mixed up or left behind.
//
// The real gateway runs inside the test, on loopback. Behind it stand four scripted servers, one for each era over streamable HTTP and over stdio
// (the latter are this test binary, started as a child). In front of it work scripted clients of both eras, each with a random mix of calls:
// plain ones, progress, questions one after the other and several at once, answers that are missing, too many, malformed or sent twice, clients that
// never come back, cancellations, disconnects, streams taken up again with Last-Event-ID, tasks, and subscriptions; and now and then a server is
// restarted under all of that.
//
// Every call has a token of its own, which is in whatever belongs to the call, in both directions. So whoever gets what is another's, sees it:
//
//   - a call that was not cancelled is answered once, a cancelled one at most once;
//   - the answer is the call's own, and so is every question, progress notification and update; the server gets the answers to its own questions;
//   - no call is sent twice to a server;
//   - in the end no call is parked, and as many can be parked as may be; no session, stream or request is left, and no goroutine.
//
// The choices come from a seed, which is printed; how the goroutines interleave does not. -calls sets the number, -seed the seed.
package soak
