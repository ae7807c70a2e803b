package frontend

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

// isArray reports whether a body is a JSON array, which is a batch of messages.
func isArray(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '['
}

// serveBatch serves an array of messages, which only revision 2025-03-26 has
// (2025-03-26, basic/transports, "Sending Messages to the Server"). Its requests run
// concurrently.
func (s *Server) serveBatch(p *postResponse, r *http.Request, principal *call.Principal, body []byte) {
	refuse := func(format string, args ...any) {
		s.rejectMessage(p.w, r, principal, wire.ID{}, http.StatusBadRequest, wire.Errorf(wire.CodeInvalidRequest, "invalid request: "+format, args...))
	}
	if err := wire.Check(body, s.options.Limits.JSON, wire.Strict); err != nil {
		s.rejectMessage(p.w, r, principal, wire.ID{}, http.StatusBadRequest, wire.Errorf(wire.CodeParse, "parse error: %s", err))
		return
	}
	p.era = wire.EraLegacy
	if !s.serves(principal.Profile, wire.EraLegacy) {
		s.refuseLegacy(p.w, r, principal, &wire.Message{})
		return
	}
	sess, client, ok := s.findSession(p.w, r, principal, wire.ID{})
	if !ok {
		return
	}
	if sess == nil || !client.Revision.HasBatches() {
		refuse("batches are for sessions of revision %s only", wire.Rev20250326)
		return
	}
	parts, _ := wire.Split(body, maxBatch)
	if len(parts) == 0 || len(parts) > maxBatch {
		refuse("a batch has between 1 and %d messages", maxBatch)
		return
	}

	if s.draining.Load() && slices.ContainsFunc(parts, func(part wire.Raw) bool {
		m, err := wire.Parse(part, s.options.Limits.JSON)
		return err == nil && m.IsRequest()
	}) {
		s.refuseDraining(p.w, r, principal, wire.ID{})
		return
	}
	if refused := p.reserved.acquireCalls(len(parts) - 1); refused != nil {
		s.refuse(p.w, r, principal, refused)
		return
	}
	p.sess = sess
	answers, requests := s.answerBatch(sess, s.senderOf(p.w, r, principal), parts, s.options.Limits.JSON, func(from sender, m *wire.Message) *exchange {
		p.batch = append(p.batch, m.ID)
		return s.legacyCall(context.WithoutCancel(r.Context()), p, sess, client, from, m)
	})
	switch {
	case len(answers) > 0:
		p.finishBatch(answers)
	case requests > 0: // all were cancelled
		p.abandon()
	default:
		writeAccepted(p.w)
	}
}

// answerBatch handles the messages of a batch. It returns the answers to its requests,
// in their order, and the number of requests. Each message has its own request id.
func (s *Server) answerBatch(sess *session.Session, from sender, parts []wire.Raw, limits wire.Limits, newCall func(sender, *wire.Message) *exchange) (answers [][]byte, requests int) {
	answers = make([][]byte, len(parts))
	running := make(map[int]*exchange) // by the index of the message
	for i, part := range parts {
		m, err := wire.Parse(part, limits)
		own := from
		own.request = requestid.Part(from.request, i+1)
		switch {
		case err != nil:
			invalid := err.(*wire.Error)
			if s.failAsk(sess, responseIn(part), invalid) {
				m.ID = wire.ID{} // as in serveBody
			}
			s.logRejected(from.principal, from.remote, own.request, m.Method, invalid)
			answers[i] = errorResponse(m.ID, own.request, invalid)
		case !m.IsRequest():
			s.receive(sess, &m)
		default:
			x := newCall(own, &m)
			if err := x.begin(); err != nil {
				x.Cancel(nil)
				invalid := invalidRequest(err)
				s.logRejected(from.principal, from.remote, own.request, m.Method, invalid)
				answers[i] = errorResponse(m.ID, own.request, invalid)
				continue
			}
			running[i] = x
		}
	}
	var wg sync.WaitGroup
	for i, x := range running { // after all are registered, so that duplicate ids are found
		wg.Go(func() { answers[i] = x.answerAlone(x.answerLegacy) })
	}
	wg.Wait()
	return slices.DeleteFunc(answers, func(msg []byte) bool { return msg == nil }), len(running)
}

// joinMessages returns one array of messages.
func joinMessages(msgs [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(msgs, []byte{','})...), ']')
}

// answerAlone answers a request on a separate goroutine. It returns nil if there is
// no response.
func (x *exchange) answerAlone(by func() answer) (msg []byte) {
	defer x.Cancel(nil)
	defer x.end()
	defer func() {
		if p := recover(); p != nil {
			x.s.logPanic(p, x.call.ID)
			msg = errorResponse(x.id, x.call.ID, errInternal)
		}
	}()
	a := by()
	if a.noResponse {
		return nil
	}
	return x.message(a)
}

// errorResponse returns the response with an error of the gateway.
func errorResponse(id wire.ID, request string, e *wire.Error) []byte {
	m := wire.Message{ID: id, Error: withRequestID(e, request)}
	return m.Append(nil)
}
