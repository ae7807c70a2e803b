// Package remote forwards calls to other replicas.
//
// A call with its principal and client becomes a request of package replica. Progress, log messages and
// asks are sent back as messages of the conversation, answers to asks are sent in the other direction,
// and cancellation ends both sides. Messages of upstreams and clients stay byte for byte.
//
// The replica that receives a request authenticates the client, judges the call by the policy and records
// it. The other replica trusts the principal in the forwarded call, because messages between replicas are
// sealed in the store.
package remote
