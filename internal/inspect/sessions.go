package inspect

import "time"

// Sessions has the sessions, streams and parked calls of clients at one moment. It has no id of a session,
// because ids are secrets.
type Sessions struct {
	Sessions []ClientSession
	Listens  []ListenStream
	Parked   []ParkedCall
}

// ClientOf identifies the client of a session, stream or parked call.
type ClientOf struct {
	Client, Version            string // what it calls itself
	Principal, Issuer, Profile string
	Revision                   string
}

// ClientSession is a session of a legacy client.
type ClientSession struct {
	ClientOf
	Digest        string // of the id
	Since, Used   time.Time
	Adopted       bool // it was opened before Since, perhaps at another replica
	Calls         int  // in flight
	Asks          int  // that wait for an answer of the client
	Subscriptions int  // to resources
	Streams       int  // that belong to no call
}

// ListenStream is an open subscriptions/listen request of a modern client.
type ListenStream struct {
	ClientOf
	Since     time.Time
	Lists     []string // whose changes it asks for
	Resources int
	Tasks     int
}

// ParkedCall is a call that waits until its client comes back with answers.
type ParkedCall struct {
	ClientOf
	Digest         string // of the id
	Request        string // the id of the request that began the call
	Method, Item   string
	Since, Expires time.Time
	Round          int
	Asks           []string // the methods of those that wait
}
