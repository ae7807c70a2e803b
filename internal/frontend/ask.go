package frontend

import (
	"context"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Ask implements call.BackChannel. A legacy client is asked by a request on the
// stream of the call; it answers with a POST of its own in the same session. A
// modern client is asked by a parkable; one that has none cannot be asked.
func (x *exchange) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	if !bridge.Declared(x.call.Client, method, params) {
		return undeclared(x.call.Client, method)
	}
	if x.sess == nil || x.notifyEnded.Load() {
		return unanswered(method)
	}
	id, answers := x.sess.NewAsk()
	defer x.sess.ForgetAsk(id)
	if !x.send(wire.Message{ID: id, Method: method, Params: params}) {
		return unanswered(method)
	}
	var err error
	select {
	case m := <-answers:
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Result, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-x.ctx.Done():
		err = x.ctx.Err()
	}
	about := id.Append([]byte(`{"requestId":`))
	x.send(wire.Message{Method: wire.NoteCancelled, Params: append(about, '}')})
	return nil, err
}

func (x *exchange) send(m wire.Message) bool { return x.sink.Send(m.Append(nil)) }

// undeclared answers a question for a client that did not declare to answer
// such ones.
func undeclared(c *call.Client, method string) (wire.Raw, error) {
	return answered(bridge.Refused(c, method))
}

// unanswered answers a question that does not reach the client.
func unanswered(method string) (wire.Raw, error) { return answered(bridge.Lapsed(method)) }

// answered keeps a nil *wire.Error from becoming an error that is not nil.
func answered(result wire.Raw, refusal *wire.Error) (wire.Raw, error) {
	if refusal != nil {
		return nil, refusal
	}
	return result, nil
}
