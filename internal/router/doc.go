// Package router is the pipeline of one call. The tables in pipeline.go show the whole
// pipeline:
//
//	resolve ▶ authorize ▶ complete ▶ validate ▶ resume ▶ own ▶ confirm ▶ limit ▶ rewrite ▶ send
//	mask ▶ rewrite ▶ conform ▶ sanitize ▶ enrich ▶ shorten ▶ downlevel ▶ mask
//
// The first line has the stages of a request on its way to the upstream, the second those
// of the answer. Each stage is a function in the file with its name.
//
// Requests of the draft SEP-2093, resources/metadata and resources/list for one
// collection, pass the same stages. If the upstream does not know the draft, the
// catalog answers instead.
//
// An upstream may turn a tool call into a task. If the client does not support tasks, the
// gateway waits for the result. Otherwise the call ends with the task, under an id that
// only this principal can use, and the client asks for the result by requests about tasks.
// An upstream's messages about a task pass the same stages as the answer to a call.
//
// A rule may require that the client's user confirms a call. The router asks the user
// before it sends the call: by a request, or by a round of a modern client. The consent is
// valid only for that call and its later rounds. If the user declines or cannot be asked,
// the call is not sent.
//
// The gateway's own items are answered by [OwnTools]. An own tool may run inner calls. They
// pass all stages under their own names; the outer call is neither counted nor audited.
//
// A call loads the current [Routes] once and keeps them to its end, so that a new table
// does not affect running calls. There are two exceptions: after the user has confirmed a
// call, the call must still be permitted; and a resource whose upstream was down when the
// call began is looked up again. Before a call is resolved, the lists of its principal are
// gathered if they differ from those of others ([PrincipalTables]). A [Router] may be used
// concurrently, and Swap may be called at any time.
package router
