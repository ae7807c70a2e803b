package matrix

import "slices"

// The transports, as their cells are named.
const (
	stdio  = "stdio"
	legacy = "legacy" // streamable HTTP
	modern = "modern" // streamable HTTP
	sse    = "sse"    // HTTP+SSE
)

var transports = []string{stdio, legacy, modern, sse}

// The moments at which a fault begins.
const (
	atConnect = "connect" // before the first connection
	atList    = "list"    // after the handshake, before the first list
	atCall    = "call"    // before a call is answered
	atStream  = "stream"  // after two events of a call
	atIdle    = "idle"    // while nothing is asked
	atRepeat  = "repeat"  // before each of many calls, until the circuit breaker is open
)

var moments = []string{atConnect, atList, atCall, atStream, atIdle, atRepeat}

// The faults of upstreams.
const (
	hangs        = "hangs"
	drips        = "drips"
	refuses      = "refuses"
	resets       = "resets"
	status500    = "status-500"
	status429    = "status-429"
	status429in7 = "status-429-in-7s"
	status503    = "status-503"
	html         = "html"
	half         = "half"
	wrongID      = "wrong-id"
	twice        = "twice"
	noAnswer     = "no-answer"
	huge         = "huge"
	garbage      = "garbage"
	exits        = "exits"
	exitLoop     = "exit-loop"
	dns          = "dns"
	untrusted    = "tls-untrusted"
	expired      = "tls-expired"
	forgets404   = "forgets-404"
	forgets400   = "forgets-400"
	clockDate    = "clock-date"
	clockRetry   = "clock-retry"
	clockExpiry  = "clock-expiry"
)

// kinds are all faults, in the order of the page.
var kinds = []struct{ name, does string }{
	{hangs, "accepts what it gets and answers nothing"},
	{drips, "sends its answer as one byte every 100 ms"},
	{refuses, "refuses connections"},
	{resets, "resets the connection (RST)"},
	{status500, "answers with HTTP 500"},
	{status429, "answers with HTTP 429"},
	{status429in7, "answers with HTTP 429 and `Retry-After: 7`"},
	{status503, "answers with HTTP 503"},
	{html, "answers with an HTML page and HTTP 200"},
	{half, "sends half of its answer (stdio: of a line, else of an SSE event) and ends"},
	{wrongID, "answers with the id of another request"},
	{twice, "answers one request twice"},
	{noAnswer, "ends its stream properly, without an answer"},
	{huge, "sends an answer over `limits.max_message`"},
	{garbage, "sends text that is not JSON"},
	{exits, "exits; a remote server stays away"},
	{exitLoop, "exits, and again after every start"},
	{dns, "has a host name that does not resolve"},
	{untrusted, "has a certificate of an unknown authority"},
	{expired, "has an expired certificate"},
	{forgets404, "forgets its sessions, and answers HTTP 404"},
	{forgets400, "forgets its sessions, and answers HTTP 400"},
	{clockDate, "has a clock that is 7 hours fast (`Date`)"},
	{clockRetry, "answers HTTP 429 with a `Retry-After` that is a date 7 hours away"},
	{clockExpiry, "gets tokens whose `expires_in` is wrong by hours"},
}

// cell is one cell of the matrix.
type cell struct{ kind, transport, moment string }

func (c cell) String() string { return c.kind + "/" + c.transport + "/" + c.moment }

// impossible returns why a cell cannot exist, "" if it does.
func (c cell) impossible() string {
	pipe := "a pipe has neither a connection nor a status"
	switch {
	case c.moment == atRepeat && !slices.Contains([]string{hangs, refuses, resets, status500, status503, html, half, noAnswer, exitLoop, dns}, c.kind):
		return "one fault of each sort opens the circuit breaker"
	case c.transport == stdio && !slices.Contains([]string{hangs, drips, half, wrongID, twice, noAnswer, huge, garbage, exits, exitLoop}, c.kind):
		return pipe
	case c.transport == modern && slices.Contains([]string{forgets400, forgets404}, c.kind):
		return "a modern server has no sessions"
	case c.transport != stdio && c.kind == exitLoop:
		return "the gateway does not start remote servers: see " + exits
	case c.transport != stdio && c.kind == exits && (c.moment == atConnect || c.moment == atList):
		return "a remote server that is not there refuses connections: see " + refuses
	case c.moment == atStream && slices.Contains([]string{status500, status429, status429in7, status503, html, forgets400, forgets404, clockRetry, clockExpiry}, c.kind):
		return "the status was sent before the events"
	case c.moment == atStream && slices.Contains([]string{refuses, dns, untrusted, expired}, c.kind):
		return "the connection is open before the events: see " + resets
	case c.moment == atConnect && slices.Contains([]string{forgets400, forgets404}, c.kind):
		return "there is no session yet"
	case c.moment == atIdle && c.kind == clockExpiry:
		return "an idle gateway needs no token"
	}
	return ""
}

// cellsOf returns the cells of a transport and a moment that exist.
func cellsOf(transport, moment string) []cell {
	var out []cell
	for _, k := range kinds {
		if c := (cell{k.name, transport, moment}); c.impossible() == "" {
			out = append(out, c)
		}
	}
	return out
}

// asksForPause reports whether the server says when it may be asked again: the gateway does not connect to it before.
func asksForPause(kind string) bool {
	return slices.Contains([]string{status429, status429in7, clockRetry}, kind)
}

// breaksConnections reports whether the fault is one of connections, and not of answers.
func breaksConnections(kind string) bool {
	return slices.Contains([]string{refuses, dns, untrusted, expired}, kind)
}
