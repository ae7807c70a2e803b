// Package park lets calls of modern clients ask their client something.
//
// A modern client accepts no requests. An ask goes into an input_required result, which
// ends the client's request. The answers come with another request for the same thing,
// the retry (2026-07-28, basic/patterns/mrtr). Between the two the call is parked: it
// keeps running on a separate goroutine, and no request waits for it. The result names
// the call in a sealed requestState. The state is bound to the principal and the
// request, and can be used once.
//
//	            an ask, and no other for GatherWindow
//	attended ───────────────────────────────────▶ parked ──▶ over: expired, or drained
//	   │  ▲                                          │
//	   │  └──────── retry with the round's state ────┘
//	   ▼
//	over: the waiting requests have the result, or the last of them has gone
//
// A [Table] holds the calls of one process. It bounds how many are parked, for each
// client and for all clients.
//
// All exported functions and methods may be called concurrently. The order of locks
// is: parkable, Table.
package park
