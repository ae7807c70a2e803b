// Package replica lets the replicas of a gateway talk to one another over the store that they share,
// so that none of them needs the address of another.
//
// Each replica has a log of its own in the store, its inbox, and shows with a key that ends by itself
// that it is alive. A request to another replica begins a conversation: both sides send messages until
// the handler returns its reply. All replicas read the log of notes.
//
// The frames from one replica to another have numbers on a link. A repeated frame is ignored. If a frame
// is missing, all conversations of the link end with [ErrLost], and a new link begins: nothing is lost
// silently, and nothing is done twice. The receiver acknowledges frames, and a sender that has too many
// unacknowledged frames waits, so that a flood does not fill the store.
package replica
