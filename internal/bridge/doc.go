// Package bridge is what stands between the eras of the protocol: questions of
// an upstream ("asks") that one era sends as requests and the other as results
// with resultType "input_required" (2026-07-28, basic/patterns/mrtr).
//
//	client legacy, upstream modern   Rounds: ask, retry with the answers, until the result is complete
//	client modern, upstream modern   the result passes; Sealer wraps its requestState
//	client modern, upstream legacy   the front end parks the call; Sealer makes its requestState
//	client modern, a call to confirm the router asks; Sealer makes the requestState of the question
//
// Tasks have two forms that do not go together either: where a client cannot carry
// one, a TaskWait waits for its result. Where it can, a Sealer makes the task's
// public id.
//
// For all of them Fit turns a question into the form that the client's revision
// knows, Label says which upstream asks, and Lapsed and Refused are the answers
// that an upstream gets when its question has none.
//
// # Guarantees
//
// A [Sealer], an [Elicitations] and a [TaskWait] may be used by any number of
// goroutines at once; everything else is a function of its arguments. What a Sealer opens it
// has sealed, or another with one of the same keys, for the same principal, and
// for the same method, name and arguments. That a state is used once is not
// guaranteed here; whoever needs it keeps count.
//
// The package is pure: no network and no logger. Rounds and TaskWait wait by the
// clock; to everything else moments in time are handed in.
package bridge
