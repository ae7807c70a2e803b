package connector

import (
	"fmt"
	"time"

	"mcpgateway/internal/upstream/diagnose"
)

// Printed takes the first text that the server has printed and that is not MCP, and nil
// when the first message has come. During the first attempt the snapshot says so, with
// the beginning of the text for operators.
func (c *Connector) Printed(text []byte) {
	reason, advice := "", ""
	if text != nil {
		reason, advice = diagnose.ReasonNonProtocolOutput, diagnose.NonProtocolOutput(text, c.o.Mask)
	}
	c.update(func(s *state) {
		if s.snapshot.State == Connecting {
			s.snapshot.Reason, s.snapshot.Advice = reason, advice
		}
	})
}

// Wrote takes the line of the server's standard error that says most. During the first
// attempt the snapshot has it, for operators, unless it has better advice.
func (c *Connector) Wrote(line string, isError bool) {
	c.update(func(s *state) {
		if s.snapshot.State == Connecting && s.snapshot.Reason == "" {
			s.snapshot.Advice = diagnose.StandardError(line, isError)
		}
	})
}

// SkippedOutput are the lines of standard output of a server, in all sessions, that were no messages and failed no call.
type SkippedOutput struct {
	Lines int       `json:"lines"`
	First string    `json:"first"` // how the first one begins, masked and without control characters
	Last  time.Time `json:"last_at"`
}

// String says how many lines there were, and what to do about it.
func (o SkippedOutput) String() string {
	const advice = "the gateway skips what is no MCP message; have the server print such text to its standard error"
	if o.Lines == 1 {
		return fmt.Sprintf("its standard output had a line that is no MCP message, %q: %s", o.First, advice)
	}
	return fmt.Sprintf("its standard output had %d lines that are no MCP messages, the first of them %q: %s", o.Lines, o.First, advice)
}

// Skip counts a line of the server that is no message.
func (h *Health) Skip(line []byte, mask func(string) string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.output.Lines == 0 {
		h.output.First = diagnose.Excerpt(line, mask)
	}
	h.output.Lines++
	h.output.Last = time.Now()
}

// Skipped returns the lines that were counted.
func (h *Health) Skipped() SkippedOutput {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.output
}
