package connector

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/diagnose"
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

// FailureOf is Failure for an error of the call with a request id, with what operators may read about it.
func (c *Connector) FailureOf(err error, reason string, since time.Time, retryable bool, request string) *wire.Error {
	failure := c.Failure(reason, since, retryable, protocol.RetryAfterOf(err))
	if failure.Detail = c.unreached(err, reason); failure.Detail != "" {
		return failure
	}
	failure.Detail = c.refusedOrLost(err, reason, request, hideAll)
	_, isHTTP := errors.AsType[diagnose.HTTPError](err)
	if failure.Detail == "" && !isHTTP {
		return failure
	}
	failure.Explain = func(hide func(text string) string) string {
		if text := c.refusedOrLost(err, reason, request, hide); text != "" {
			return text
		}
		status := &diagnose.FailedCall{Err: err, Hide: hide, Request: request}
		return c.o.reason(reason) + diagnose.ServerMessage(status, c.o.Mask) + diagnose.ServerRequest(status)
	}
	return failure
}

// hideAll hides what a server said about a call, which may repeat arguments of it.
func hideAll(string) string { return "" }

// detail says for operators why a call failed, without what the server said about the call, "" if the reason says everything.
func (c *Connector) detail(err error, reason, request string) string {
	if text := c.unreached(err, reason); text != "" {
		return text
	}
	return c.refusedOrLost(err, reason, request, hideAll)
}

// listDetail says for operators why a list failed with err, and what to do about it. otherwise is the text about errors for
// which there is no advice.
func (c *Connector) listDetail(err error, otherwise string) string {
	reason, whole := ReasonFor(err), func(text string) string { return text } // a request for a list has nothing to hide
	if text := cmp.Or(c.unreached(err, reason), c.refusedOrLost(err, reason, "", whole)); text != "" {
		return text
	}
	return c.o.reason(otherwise) + diagnose.ServerMessage(err, c.o.Mask) + diagnose.ServerRequest(err)
}

// unreached says for operators why a call found no connection, as the line "no connection" does, or why there are no
// credentials for it. It is "" for other errors.
func (c *Connector) unreached(err error, reason string) string {
	if s := c.Snapshot(); (s.State == Down || s.State == Connecting) && s.Reason == reason {
		return s.Advice
	}
	if f, ok := errors.AsType[*protocol.CallError](err); ok && f.NotSent && (f.ConnectionLost || f.NoCredentials) && f.Cause != nil {
		return c.advice(err)
	}
	return ""
}

// refusedOrLost says for operators that the server refuses the credentials of a call, or how a program ended that had the
// call. It is "" for other errors. hide is that of [diagnose.FailedCall].
func (c *Connector) refusedOrLost(err error, reason, request string, hide func(text string) string) string {
	f, ok := errors.AsType[*protocol.CallError](err)
	if !ok {
		return ""
	}
	failed := &diagnose.FailedCall{Err: f.Cause, Hide: hide, Request: request}
	_, isHTTP := errors.AsType[diagnose.HTTPError](f.Cause)
	more, isLost := strings.CutPrefix(reason, protocol.ReasonConnectionLost)
	switch {
	case f.Unauthenticated && isHTTP:
		return c.advice(failed)
	case isLost && f.MayHaveExecuted && f.Cause != nil:
		return c.advice(failed) + more
	default:
		return ""
	}
}

// advice returns why there is no connection and what to do about it, masked and bounded.
func (c *Connector) advice(why error) string {
	return plaintext.Truncate(c.o.Mask(c.o.Advice(why)), diagnose.MaxText)
}

// Refused reports whether the server has refused the last attempt to connect that failed. It is false if the attempt
// found no server, no answer or no credentials, which says nothing about the next one.
func (c *Connector) Refused() (refused bool) {
	c.view(func(s *state) { refused = s.refused })
	return refused
}

// isRefusal reports whether an attempt failed because the server does not want the session. A gateway or proxy in front of
// the server sends some statuses while the server is away, and a server that asks for a pause wants the session later.
func isRefusal(err error) bool {
	if f, ok := errors.AsType[*protocol.CallError](err); ok && (f.Unauthenticated || f.ConnectionLost || f.RetryAfter > 0) {
		return false
	}
	if _, ok := errors.AsType[*wire.Error](err); ok {
		return true
	}
	h, ok := errors.AsType[diagnose.HTTPError](err)
	if !ok {
		return false
	}
	switch status := h.StatusCode(); status {
	case http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	default:
		return status >= 400
	}
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
