package upstream

import (
	"errors"
	"fmt"

	"mcpgateway/internal/plaintext"
)

// How often the limit of a message fits into a line that is given up. A line that is
// shorter is read to its end, which costs one call at most: the end may say whose
// answer it is, and the lines after it are as good as ever. That is worth more where
// the server is known to speak MCP.
const (
	endlessStranger = 2  // before the server has sent any message
	endlessServer   = 16 // after that
)

// endless is why a conversation ends in which the server writes a line that does not.
type endless struct{ size int64 }

func (e *endless) Error() string {
	return fmt.Sprintf("the server wrote more than %d bytes without the end of a line", e.size)
}

func isEndless(err error) bool {
	_, is := errors.AsType[*endless](err)
	return is
}

// reasonBabbles is what clients get while a server has printed only what is no message.
const reasonBabbles = "the server prints text that is no MCP message"

// babbles publishes during the first attempt that the server has printed text and no
// message yet, with the beginning of the text for those who run the gateway; nil that
// a message has come.
func (c *Connector) babbles(text []byte) {
	reason, advice := "", ""
	if text != nil {
		// Bounded first, as a line may be large; masked before the last cut, so that no
		// half of a secret is left.
		begin := plaintext.Truncate(c.o.Mask(string(text[:min(len(text), 2*maxLogged)])), maxSaid)
		reason, advice = reasonBabbles, fmt.Sprintf("the server prints text that is no MCP message, such as %q: %s", begin, checkStdio)
	}
	c.update(func(s *Snapshot) {
		if s.State == Connecting {
			s.Reason, s.Advice = reason, advice
		}
	})
}
