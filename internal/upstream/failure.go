package upstream

import (
	"strconv"
	"time"

	"mcpgateway/internal/wire"
)

// failure is the error object for a call that the gateway, not the server, ends:
// an internal error whose data says which upstream failed, why, since when, and
// whether the call may safely be sent again; where that makes sense after a while
// only, also after how many seconds.
func (c *Connector) failure(reason string, since time.Time, retryable bool, later time.Duration) *wire.Error {
	name, reason := wire.String(c.o.Name), c.o.Mask(reason)
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

// overloaded is after how long a call that found no place may find one. How long
// those take that have one nobody knows.
const overloaded = 5 * time.Second

// mostLater bounds after how long a server may want to be asked again.
const mostLater = time.Hour

// unavailable is the fault of a call that found no conversation. It says why
// there is none.
func (c *Connector) unavailable(otherwise string) *fault {
	reason := c.Snapshot().Reason
	if reason == "" {
		reason = otherwise
	}
	return &fault{reason: reason, unsent: true}
}
