// Package sessionstore keeps the shared state of legacy sessions in a store. [States] has the end
// of a session, its log level and its subscriptions. [Events] has copies of the events of streams,
// which are used after a replica has ended.
//
// The state of a session is kept for as long as any replica has the session. The end of a session
// is kept until its id expires. A session without state needs no room in the store. Copies are
// written in the background, in the order of each stream, and are bounded for each stream, session
// and client.
//
// Values from the store are not trusted: values that no gateway has written are ignored.
package sessionstore
