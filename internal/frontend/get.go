package frontend

import (
	"context"
	"errors"
	"net/http"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// serveGet opens a stream for messages that belong to no call, or resumes a stream
// whose connection broke.
func (s *Server) serveGet(w http.ResponseWriter, r *http.Request, principal *call.Principal) {
	if len(r.Header[wire.HeaderSession]) == 0 {
		s.refuseWithoutSession(w, r, principal)
		return
	}
	sess, client, ok := s.findSession(w, r, principal, wire.ID{})
	if !ok {
		return
	}
	if !parseAccept(r.Header["Accept"]).events {
		s.refuse(w, r, principal, &refusal{status: http.StatusNotAcceptable, reason: "Accept must name text/event-stream"})
		return
	}
	eventID, single := header(r, wire.HeaderLastEvent)
	after, err := stream.Position{}, error(nil)
	if eventID != "" || !single {
		after, err = stream.ParseEventID(eventID)
	}
	if err != nil || !single {
		s.refuseGet(w, r, principal, stream.ErrUnknownEvent)
		return
	}
	if after.ForCall() && isElsewhere(sess, after) {
		s.resumeCall(w, r, principal, sess, after)
		return
	}
	st, c, err := s.openGet(r.Context(), sess, after)
	if err != nil {
		s.refuseGet(w, r, principal, err)
		return
	}
	s.restore(sess)
	ends := stream.Ends{At: principal.Expires} // a client that comes again has to authenticate again
	if client.Revision.HasPriming() {
		ends.Poll = time.Now().Add(pollAfter)
	}
	s.runStream(w, r, s.requestShare(r, principal), c, ends, func() { sess.Detach(st) })
}

// openGet connects to the stream of the event that the client got last, or to a new
// stream if there is none, or another process had the stream.
func (s *Server) openGet(ctx context.Context, sess *session.Session, after stream.Position) (*stream.Stream, *stream.Conn, error) {
	if after.Stream != "" {
		st, err := sess.Replay.Find(after)
		switch {
		case isElsewhere(sess, after), err == nil && !st.ForCall() && st.Moved().To != "":
			return s.moveHere(ctx, sess, after)
		case err != nil && (!sess.IsAdopted() || after.ForCall()):
			return nil, nil, err
		case err != nil: // another process had the stream, and what the client missed is not known
			sess.NotifyLists(stream.AllChanged)
		case st.ForCall(): // allowed while the server drains, because the stream ends with its call
			c, err := st.Resume(after.Number)
			return st, c, err
		default:
			return s.attachGet(sess, st, func() (*stream.Conn, error) { return st.Resume(after.Number) })
		}
	}
	st := s.newEventStream(wire.EraLegacy)
	primes := sess.Client.Revision.HasPriming()
	return s.attachGet(sess, st, func() (*stream.Conn, error) { return sess.Replay.Open(st, nil, primes), nil })
}

// attachGet attaches a stream without a call to the session.
func (s *Server) attachGet(sess *session.Session, st *stream.Stream, connect func() (*stream.Conn, error)) (*stream.Stream, *stream.Conn, error) {
	if s.draining.Load() {
		return nil, nil, errStopped
	}
	c, err := sess.Attach(st, connect)
	if s.draining.Load() { // checked after Attach, so that Drain misses no stream
		st.End()
		if err == session.ErrEnded {
			err = errStopped
		}
	}
	return st, c, err
}

// refuseGet answers a GET that gets no stream. The status is not 404 for an unknown
// event, because 404 means that the session has ended. It is 204 if the client has all
// events of the stream, which ends its attempts (WHATWG HTML, "Server-sent events").
func (s *Server) refuseGet(w http.ResponseWriter, r *http.Request, principal *call.Principal, err error) {
	refuseID := func(status int) {
		s.countRefusedID("event id refused", w, r, principal, status, err)
		s.answerRefused(w, &refusal{status: status, reason: err.Error()})
	}
	switch {
	case errors.Is(err, stream.ErrComplete):
		writeStatus(w, http.StatusNoContent)
	case errors.Is(err, stream.ErrUnknownEvent), errors.Is(err, stream.ErrMoved):
		refuseID(http.StatusBadRequest)
	case errors.Is(err, stream.ErrEventsLost):
		refuseID(http.StatusGone)
	case errors.Is(err, session.ErrTooManyStreams):
		s.refuseBusy(w, r, principal, wire.ID{}, http.StatusTooManyRequests, err.Error())
	case errors.Is(err, errStopped), errors.Is(err, errNotNow):
		s.refuseBusy(w, r, principal, wire.ID{}, http.StatusServiceUnavailable, err.Error())
	default:
		s.rejectMessage(w, r, principal, wire.ID{}, http.StatusNotFound, errNoSession)
	}
}
