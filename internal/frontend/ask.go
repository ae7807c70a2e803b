package frontend

import (
	"context"
	"strconv"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Ask implements call.BackChannel. A legacy client is asked by a request on the
// stream of the call; it answers with a POST of its own in the same session. A
// modern client cannot be asked while a call of it is running.
func (x *exchange) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	if !declares(x.call.Client, method, params) {
		return undeclared(x.call.Client, method)
	}
	if x.sess == nil || x.over.Load() {
		return unanswered(method)
	}
	id, answers := x.sess.ask()
	defer x.sess.forget(id)
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

func (x *exchange) send(m wire.Message) bool { return x.out.send(m.Append(nil)) }

// askID returns the id of a session's nth question. Only the answers to our own
// requests carry it, so it need not differ from the client's ids.
func askID(n int64) wire.ID { return wire.IDOf(strconv.FormatInt(n, 10)) }

// declares reports whether the client declared that it answers such a question.
func declares(c *call.Client, method string, params wire.Raw) bool {
	switch method {
	case wire.MethodElicit:
		if !c.Can("elicitation") {
			return false
		}
		if wire.ValueOf(params).Get("mode").IsString("url") {
			return c.Can("elicitation", "url")
		}
		// An empty capability means forms (2025-11-25, client/elicitation).
		return c.Can("elicitation", "form") || !c.Can("elicitation", "url")
	case wire.MethodSample:
		return c.Can("sampling")
	case wire.MethodRootsList:
		return c.Can("roots")
	default:
		return false
	}
}

// undeclared answers a question for a client that did not declare to answer
// such ones. That a user cannot be asked is not their "no": elicitation is
// cancelled, not declined.
func undeclared(c *call.Client, method string) (wire.Raw, error) {
	switch {
	case method != wire.MethodElicit:
		return nil, wire.Errorf(wire.CodeMethodNotFound, "the client did not declare that it answers %s", method)
	case c.Can("elicitation"):
		return nil, wire.Errorf(wire.CodeInvalidParams, "the client did not declare this mode of elicitation")
	default:
		return cancelledElicitation(), nil
	}
}

// unanswered answers a question that does not reach the client.
func unanswered(method string) (wire.Raw, error) {
	switch method {
	case wire.MethodElicit:
		return cancelledElicitation(), nil
	case wire.MethodSample:
		return nil, wire.Errorf(codeSamplingRejected, "the client cannot be reached")
	default:
		return nil, wire.Errorf(wire.CodeInternal, "the client cannot be reached")
	}
}

// codeSamplingRejected is the code that the specification shows for sampling
// that did not take place (2025-11-25, client/sampling, "Error Handling").
const codeSamplingRejected = -1

func cancelledElicitation() wire.Raw { return wire.Raw(`{"action":"cancel"}`) }
