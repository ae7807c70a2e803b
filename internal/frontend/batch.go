package frontend

import (
	"bytes"
	"net/http"
	"slices"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// isArray reports whether a body is a JSON array, which as a message is a batch.
func isArray(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '['
}

// serveBatch serves an array of messages, which only sessions of 2025-03-26
// know (2025-03-26, basic/transports, "Sending Messages to the Server"). Its
// requests run at once.
func (s *Server) serveBatch(p *post, r *http.Request, who *call.Principal, body []byte) {
	refuse := func(format string, args ...any) {
		s.fault(p.w, r, wire.ID{}, http.StatusBadRequest, wire.Errorf(wire.CodeInvalidRequest, "invalid request: "+format, args...))
	}
	if err := wire.Check(body, s.opt.Limits, wire.Strict); err != nil {
		s.fault(p.w, r, wire.ID{}, http.StatusBadRequest, wire.Errorf(wire.CodeParse, "parse error: %s", err))
		return
	}
	p.era = wire.EraLegacy
	sess, client, ok := s.findSession(p.w, r, who, wire.ID{})
	if !ok {
		return
	}
	if sess == nil || !client.Revision.HasBatches() {
		refuse("batches are for sessions of revision %s only", wire.Rev20250326)
		return
	}
	parts, _ := wire.Split(body)
	if len(parts) == 0 || len(parts) > maxBatch {
		refuse("a batch has between 1 and %d messages", maxBatch)
		return
	}

	answers := make([][]byte, len(parts)) // in the order of the messages, nil where there is none
	running := make(map[int]*exchange)    // by the place of the message
	for i, part := range parts {
		m, err := wire.Parse(part, s.opt.Limits)
		switch {
		case err != nil:
			answers[i] = faultOf(m.ID, err.(*wire.Error))
		case !m.IsRequest():
			sess.take(&m)
		default:
			x := s.legacyCall(r, p, sess, client, who, &m)
			if err := x.begin(); err != nil {
				x.cancel(nil)
				answers[i] = faultOf(m.ID, invalidRequest(err))
				continue
			}
			running[i] = x
		}
	}
	var wg sync.WaitGroup
	for i, x := range running { // begun when all are registered, so that ids are compared with all of them
		wg.Go(func() { answers[i] = x.answerInBatch() })
	}
	wg.Wait()
	answers = slices.DeleteFunc(answers, func(msg []byte) bool { return msg == nil })
	switch {
	case len(answers) > 0:
		p.finishBatch(answers)
	case len(running) > 0: // all were cancelled
		p.abandon()
	default:
		accepted(p.w)
	}
}

// answerInBatch answers one request of a batch, by nil when there is to be no
// response.
func (x *exchange) answerInBatch() (msg []byte) {
	defer x.cancel(nil)
	defer x.end()
	defer func() {
		if fault := recover(); fault != nil {
			x.s.logPanic(fault)
			msg = faultOf(x.id, errInternal)
		}
	}()
	a := x.answer()
	if a.silent {
		return nil
	}
	return x.appendAnswer(nil, a)
}

func faultOf(id wire.ID, e *wire.Error) []byte {
	m := wire.Message{ID: id, Error: e}
	return m.Append(nil)
}
