package upstream

import "mcpgateway/internal/upstream/diagnose"

// How often the limit of a message fits into a line that is given up. A line that is
// shorter is read to its end, which costs one call at most: the end may say whose
// answer it is, and the lines after it are as good as ever. That is worth more where
// the server is known to speak MCP.
const (
	endlessStranger = 2  // before the server has sent any message
	endlessServer   = 16 // after that
)

// babbles publishes during the first attempt that the server has printed text and no
// message yet, with the beginning of the text for those who run the gateway; nil that
// a message has come.
func (c *Connector) babbles(text []byte) {
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
