// Package sessionstore keeps in a store what the replicas of the gateway share of the sessions of
// legacy clients: whether a session was ended, its log level, and its subscriptions.
//
// What is kept of a session lives for as long as some replica has the session. An end is kept until
// the id of the session expires. A session with neither takes no room in the store.
//
// What is read from the store is not trusted: values that no gateway has written are ignored.
package sessionstore
