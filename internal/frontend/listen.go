package frontend

import (
	"net/http"

	"mcpgateway/internal/wire"
)

// listen serves subscriptions/listen: a stream that begins with what is honored,
// carries list changes, and ends with a result when it is we who end it
// (2026-07-28, basic/patterns/subscriptions).
func (s *Server) listen(p *post, r *http.Request, x *exchange) {
	filter := wire.ValueOf(x.call.Params).Get("notifications")
	if filter.Kind() != '{' {
		x.finish(p, answer{fault: wire.Errorf(wire.CodeInvalidParams, "invalid params: subscriptions/listen needs the object notifications")})
		return
	}
	if !p.takesEvents {
		s.refuse(p.w, r, &refusal{http.StatusNotAcceptable, "Accept must name text/event-stream for subscriptions/listen"})
		return
	}
	var wants changes
	var honored []byte
	for i, name := range [...]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"} {
		if filter.Get(name).Bool() {
			wants |= 1 << i
			if honored != nil {
				honored = append(honored, ',')
			}
			honored = append(wire.AppendString(honored, name), ":true"...)
		}
	}
	st := s.newStream(p.w, wire.EraModern)
	st.subscription = x.id
	if !s.listens.add(st, wants, s.opt.MaxSessions) {
		s.busy(p.w, r, http.StatusServiceUnavailable, "there are too many listen streams")
		return
	}
	defer s.listens.remove(st)
	if s.draining.Load() { // looked at after add, so that Drain misses no stream
		s.busy(p.w, r, http.StatusServiceUnavailable, errStopped.Error())
		return
	}
	params := subscriptionParams(x.id)
	params = append(params[:len(params)-1], `,"notifications":{`...)
	params = append(append(params, honored...), '}', '}')
	acknowledged := wire.Message{Method: wire.NoteAcknowledged, Params: params}
	st.send(acknowledged.Append(nil))
	if st.run(r.Context()) {
		result := append([]byte(`{"resultType":"complete",`), subscriptionParams(x.id)[1:]...)
		end := wire.Message{ID: x.id, Result: result}
		st.write(wire.AppendEvent(nil, wire.Event{Data: end.Append(nil)}))
	}
}

// subscriptionParams returns an object whose _meta names the subscription.
func subscriptionParams(id wire.ID) wire.Raw {
	params := append(wire.Raw(`{"_meta":{`), wire.String(wire.MetaSubscriptionID)...)
	return append(id.Append(append(params, ':')), '}', '}')
}
