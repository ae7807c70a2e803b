package frontend

import "time"

const (
	defaultMaxMessage  = 16 << 20
	defaultMaxSessions = 10000
	defaultMaxBodies   = 8 // times MaxMessage
	defaultMaxCalls    = 4096
	defaultMaxParked   = 64
	defaultSessionIdle = 30 * time.Minute
	defaultParkTTL     = 5 * time.Minute

	maxUnsent    = 8  // times MaxMessage, for answers that clients have not read yet
	maxEventLogs = 16 // times MaxMessage, for the event logs of all sessions in memory
	parkedShares = 16 // times MaxParked, for the parked calls of all clients

	// A client may take bodyGrace to send a small body. After that, bodyRate bytes of a
	// large body must arrive each second.
	bodyGrace = 20 * time.Second
	bodyRate  = 32 << 10
	// freeBody is the size up to which bodies and answers are not counted.
	freeBody = 16 << 10

	// writeTimeout is how long a client may take to read a piece of writePiece bytes,
	// writeHurried how long a client may take that has not read its share. The last piece of
	// a message may be half as long again, and then has half as much time again.
	writeTimeout = 30 * time.Second
	writeHurried = 5 * time.Second
	writePiece   = 256 << 10

	// pollAfter is how long the connection of a GET may last if the client knows that
	// it has to come again. Proxies end long connections less politely.
	pollAfter = 5 * time.Minute
	// maxBatch bounds the messages of one batch, whose requests run concurrently.
	maxBatch = 100
	// maxPeerCalls bounds the requests of one peer that run at the same time, and
	// maxPeerListens its listen streams.
	maxPeerCalls   = 1000
	maxPeerListens = 16
	// retryAfter is the Retry-After in seconds when a limit is reached.
	retryAfter = "5"
)

func (l *Limits) setDefaults() {
	if l.MaxMessage <= 0 {
		l.MaxMessage = defaultMaxMessage
	}
	if l.MaxBodies <= 0 {
		l.MaxBodies = defaultMaxBodies * int64(l.MaxMessage)
	}
	if l.MaxCalls <= 0 {
		l.MaxCalls = defaultMaxCalls
	}
	if l.MaxSessions <= 0 {
		l.MaxSessions = defaultMaxSessions
	}
	if l.SessionIdle <= 0 {
		l.SessionIdle = defaultSessionIdle
	}
	if l.MaxParked <= 0 {
		l.MaxParked = defaultMaxParked
	}
}
