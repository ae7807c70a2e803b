// Package session holds the sessions of legacy clients.
//
// A [Session] knows the requests of its client that run, the asks that wait for the
// client's answer, the streams that carry what belongs to no call, and the client's
// resource subscriptions. It does not know how messages travel. A [Table] holds all
// sessions, bounds them, and ends those that are idle. With keys, an id says all that another
// process needs to serve the session: [IDs] opens it, and the table adopts the session.
//
// All methods may be called concurrently. None waits for a client or a handler. The
// order of locks is: Table, Session, the set of subscriptions; then those of package
// stream.
package session
