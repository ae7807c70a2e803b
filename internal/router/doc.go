// Package router is the pipeline of one call, and nothing else. The tables in pipeline.go
// show it whole:
//
//	resolve ▶ authorize ▶ complete ▶ validate ▶ resume ▶ own ▶ confirm ▶ limit ▶ rewrite ▶ send
//	mask ▶ rewrite ▶ conform ▶ sanitize ▶ enrich ▶ shorten ▶ downlevel ▶ mask
//
// The first line is the way of a request to its upstream, the second the way of the answer
// back. Each stage is a function in the file of its name.
//
// Requests of the draft SEP-2093, resources/metadata and resources/list for one
// collection, pass the same stages. If the upstream does not know the draft, the
// catalog answers instead.
//
// An upstream may make a task of a tool call. If the client cannot carry a task, the
// gateway waits for the result. Else the call ends with the task, under an id that only
// this principal can use, and the client asks for it by requests about tasks. An upstream's
// messages about a task pass the same stages as the answer to a call.
//
// A rule may want a call to be confirmed by the client's user. The router asks the user
// before it sends the call: by a request, or by a round of a modern client. The consent is
// valid for that call and its later rounds, and for nothing else. A user who declines, or
// cannot be asked, keeps the call from its upstream.
//
// The gateway's own items are answered by [OwnTools]. An own tool may run inner calls. They
// pass all stages under their own names; the outer call is neither counted nor audited.
//
// A call loads the current [Routes] once and keeps them to its end, so that a table that
// is swapped in while it runs changes nothing for it. There are two exceptions: after the
// user has confirmed a call, the call must still be permitted; and a resource whose
// upstream was down when the call began is looked up again. Before a call is resolved, the
// lists of its principal are gathered if they differ from those of others
// ([PrincipalTables]). A [Router]
// may be used by any number of goroutines, and Swap may be called at any time.
package router
