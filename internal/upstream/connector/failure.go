package connector

import (
	"strconv"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// reason masks and bounds the reason of a failure for clients.
func (o *Options) reason(why string) string {
	return plaintext.Truncate(o.Mask(why), protocol.MaxReason)
}

// why is the log field of an error that may contain text of the server.
func (o *Options) why(err error) zap.Field { return zap.String("error", o.reason(err.Error())) }

// Failure is the error of a call that the gateway ends and not the server: an internal
// error whose data says which upstream failed, why, since when, and whether the call may
// safely be sent again, and after how many seconds if it should wait.
func (c *Connector) Failure(reason string, since time.Time, retryable bool, later time.Duration) *wire.Error {
	name, reason := wire.String(c.o.Name), c.o.reason(reason)
	data := append([]byte(`{"upstream":`), name...)
	data = wire.AppendString(append(data, `,"reason":`...), reason)
	data = wire.AppendString(append(data, `,"since":`...), since.UTC().Format(time.RFC3339))
	data = append(data, `,"retryable":`...)
	data = strconv.AppendBool(data, retryable)
	if later > 0 {
		data = append(data, `,"retryAfter":`...)
		data = strconv.AppendInt(data, int64((later+time.Second-1)/time.Second), 10)
	}
	data = append(data, '}')
	return wire.Errorf(wire.CodeInternal, "upstream %s: %s", name, reason).WithData(data)
}

// unavailable is the error of a call that found no conversation. It says why there is
// none, and when the server may be asked again if it has said so.
func (c *Connector) unavailable(otherwise string) *protocol.CallError {
	var retryAt time.Time
	c.view(func(s *state) { retryAt = s.retryAt })
	reason := c.Snapshot().Reason
	if reason == "" {
		reason = otherwise
	}
	return &protocol.CallError{Reason: reason, NotSent: true, RetryAfter: max(time.Until(retryAt), 0)}
}
