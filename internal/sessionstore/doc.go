// Package sessionstore keeps in a store what the replicas of the gateway share of the sessions of
// legacy clients: [States], whether a session was ended, its log level, and its subscriptions; and
// [Events], copies of the events of streams for when a replica has ended.
//
// The state of a session lives for as long as some replica has the session. An end is kept until
// the id of the session expires. A session with neither takes no room in the store. Copies are
// written in the background, in the order of each stream, and are bounded for each stream, session
// and client.
//
// Texts from the store are not trusted: values that no gateway has written are ignored.
package sessionstore
