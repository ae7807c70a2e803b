// Package remote passes calls to other replicas.
//
// A call with its principal and client becomes a request of package replica. Progress, log messages and
// asks travel back as messages of the conversation, the answers to asks forth, and cancellation ends both
// sides. Messages of upstreams and clients stay byte for byte.
//
// The replica that a request reaches authenticates the client, judges the call by the policy and records
// it. The one that the call is passed to believes what it is told of the principal: the store seals what
// replicas say to one another.
package remote
