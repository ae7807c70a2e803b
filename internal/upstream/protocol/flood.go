package protocol

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// messagesPerSecond and messagesBurst bound how many messages that are no responses
	// are read in one session.
	messagesPerSecond = 20_000
	messagesBurst     = 20_000
	// requestCost is how many messages a request of the server counts for: each has a
	// goroutine and a response.
	requestCost = 20
	// leastPause is the shortest pause of a reader. Shorter ones add up.
	leastPause = 10 * time.Millisecond
	// longestPause bounds the pauses, since nothing interrupts them.
	longestPause = time.Second
)

// Throttle slows the readers of one session down when the server sends more messages than
// anybody can use, so that the server waits and not the others: a pipe, or the buffer of a
// connection, holds what is not read. A nil Throttle does nothing. The methods may be called
// concurrently.
type Throttle struct {
	limiter  *rate.Limiter
	exceeded func(kind string, n int)
}

// Kinds of what a Throttle counts.
const (
	ExcessPauses = "pauses" // of readers
	ExcessStderr = "stderr" // lines that were left out of the log
)

// NewThrottle returns a Throttle. exceeded counts what the server sends too much.
func NewThrottle(exceeded func(kind string, n int)) *Throttle {
	return &Throttle{rate.NewLimiter(messagesPerSecond, messagesBurst), exceeded}
}

// LeftOut counts lines of the server's standard error that are not logged.
func (t *Throttle) LeftOut(lines int) {
	if t != nil {
		t.exceeded(ExcessStderr, lines)
	}
}

// Received is called by a reader for each message that is not a response. It may pause.
func (t *Throttle) Received(isRequest bool) {
	if t == nil {
		return
	}
	cost := 1
	if isRequest {
		cost = requestCost
	}
	if d := t.limiter.ReserveN(time.Now(), cost).Delay(); d >= leastPause {
		t.exceeded(ExcessPauses, 1)
		time.Sleep(min(d, longestPause))
	}
}
