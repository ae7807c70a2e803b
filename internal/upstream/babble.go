package upstream

import "mcpgateway/internal/upstream/diagnose"

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
