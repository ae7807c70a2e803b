package connector

import "mcpgateway/internal/upstream/diagnose"

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
