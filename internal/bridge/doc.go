// Package bridge connects clients and upstreams of different eras of the protocol. It handles
// the questions of an upstream ("asks"), which one era sends as requests and the other as
// results with resultType "input_required" (2026-07-28, basic/patterns/mrtr).
//
//	client legacy, upstream modern   AnswerRounds asks, and sends the call again with the answers until the result is complete
//	client modern, upstream modern   the result passes; a Sealer seals its requestState
//	client modern, upstream legacy   the front end parks the call; a Sealer makes its requestState
//	client modern, a call to confirm the router asks; a Sealer makes the requestState of the question
//
// The two forms of tasks do not match either. If a client cannot carry a task, a TaskWait waits
// for its result. If it can, a Sealer makes the public id of the task.
//
// AdaptQuestion turns a question into the form that the client's revision knows, and
// LabelUpstream says which upstream asks. Unanswered and Undeclared are the answers that an
// upstream gets if its question has none.
//
// # Guarantees
//
// A [Sealer], an [Elicitations] and a [TaskWait] may be used concurrently; everything else is a
// function of its arguments. A Sealer opens only texts that it, or another Sealer with one of
// its keys, has sealed for the same principal, method, name and arguments. It does not guarantee
// that a state is used only once: a caller that needs this has to remember used states.
//
// The package is pure: no network and no logger. AnswerRounds and TaskWait wait by the clock;
// all other functions get the time as an argument.
package bridge
