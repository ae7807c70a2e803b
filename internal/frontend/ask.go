package frontend

import (
	"context"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Ask implements call.BackChannel. A legacy client is asked by a request on the stream
// of the call, and answers with another POST in the same session. Calls of modern
// clients that can be asked have the back channel of package park.
func (x *exchange) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	if !bridge.Declared(x.call.Client, method, params) {
		return undeclared(x.call.Client, method)
	}
	if x.sess == nil || x.notifyEnded.Load() {
		return unanswered(method)
	}
	id, answers := x.sess.NewAsk()
	defer x.sess.ForgetAsk(id)
	if m := (wire.Message{ID: id, Method: method, Params: params}); !x.sink.Send(m.Append(nil)) {
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
	case <-x.scope.Done():
		err = x.scope.Err()
	}
	x.sink.Send(cancelledNote(id))
	return nil, err
}

// undeclared answers an ask for a client that did not declare the capability.
func undeclared(c *call.Client, method string) (wire.Raw, error) {
	return answered(bridge.Undeclared(c, method))
}

// unanswered answers an ask that does not reach the client.
func unanswered(method string) (wire.Raw, error) { return answered(bridge.Unanswered(method)) }

// answered keeps a nil *wire.Error from becoming an error that is not nil.
func answered(result wire.Raw, refusal *wire.Error) (wire.Raw, error) {
	if refusal != nil {
		return nil, refusal
	}
	return result, nil
}
