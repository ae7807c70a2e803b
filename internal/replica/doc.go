// Package replica lets the replicas of a gateway exchange messages over the store that they share, so
// that no replica needs the address of another.
//
// Each replica has a log in the store, its inbox, and a key that expires unless the replica renews it as
// a heartbeat. A request to another replica begins a conversation: both sides send messages until the
// handler returns its reply. All replicas read the log of notes.
//
// The frames from one replica to another have numbers on a link. A repeated frame is ignored. If a frame
// is missing, all conversations of the link end with [ErrLost], and a new link begins. So no message is
// lost silently or handled twice. The receiver acknowledges frames, and a sender that has too many
// unacknowledged frames waits, so that a flood does not fill the store.
package replica
