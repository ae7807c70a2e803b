// Package router is the pipeline of one call, and nothing else:
//
//	resolve the public name ▶ policy ▶ arguments fit ▶ confirmation ▶ limits ▶ rewrite params ▶ upstream
//	  ▶ rewrite result ▶ conformance ▶ sanitise ▶ enrich ▶ down-level
//
// Requests of the draft SEP-2093, resources/metadata and resources/list for one
// collection, go the same way. Where the upstream knows nothing of the draft, the
// catalog answers in its place.
//
// A tool call that its upstream makes a task of goes on as long as the task where
// the client cannot carry it; else it ends with the task under an id of this
// principal's own, for which requests about tasks then ask.
//
// A call that a rule has confirmed by the client's user asks them first, as an
// upstream would ask: by a request, or by a round of a modern client. The consent
// is good for that call, whose later rounds carry it on, and for nothing else. A
// user who declines, or cannot be asked, keeps the call from its upstream.
//
// A call loads the current [Routes] once and keeps them to its end, so a table
// that is swapped in while it runs changes nothing for it. Before that it has the
// lists of its principal gathered where there are such ([Owners]). A [Router] may be
// used by any number of goroutines, and Swap at any time.
package router
