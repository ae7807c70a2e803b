package bridge

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// codeRejected is the code that the specification shows for sampling that did
// not take place (2025-11-25, client/sampling, "Error Handling").
const codeRejected = -1

// Cancelled is the answer to an elicitation that nobody answered. It is not
// "decline", which would say that the user refused.
func Cancelled() wire.Raw { return wire.Raw(`{"action":"cancel"}`) }

// Lapsed is the answer to a question that reached nobody, or that nobody
// answered in time. Exactly one of the two is not nil.
func Lapsed(method string) (wire.Raw, *wire.Error) {
	switch method {
	case wire.MethodElicit:
		return Cancelled(), nil
	case wire.MethodSample:
		return nil, wire.Errorf(codeRejected, "the client cannot be reached")
	default:
		return nil, wire.Errorf(wire.CodeInternal, "the client cannot be reached")
	}
}

// Declared reports whether the client declared that it answers such a question.
func Declared(c *call.Client, method string, params wire.Raw) bool {
	return Required(c, method, params) == nil
}

// Required returns the capabilities that the client lacks for a question, an
// object as in the data of a MissingRequiredClientCapabilityError, nil when it
// lacks none.
func Required(c *call.Client, method string, params wire.Raw) wire.Raw {
	switch method {
	case wire.MethodElicit:
		if wire.ValueOf(params).Get("mode").IsString("url") {
			if !c.Can("elicitation", "url") {
				return wire.Raw(`{"elicitation":{"url":{}}}`)
			}
			return nil
		}
		// A capability that names no mode means forms (2025-11-25, client/elicitation).
		if !c.Can("elicitation") || c.Can("elicitation", "url") && !c.Can("elicitation", "form") {
			return wire.Raw(`{"elicitation":{"form":{}}}`)
		}
		return nil
	case wire.MethodSample:
		switch {
		case wantsTools(params) && !c.Can("sampling", "tools"):
			return wire.Raw(`{"sampling":{"tools":{}}}`)
		case !c.Can("sampling"):
			return wire.Raw(`{"sampling":{}}`)
		}
		return nil
	case wire.MethodRootsList:
		if !c.Can("roots") {
			return wire.Raw(`{"roots":{}}`)
		}
		return nil
	default:
		return wire.Raw(`{}`)
	}
}

// Unclear reports whether an object, a question or its params, has a member twice: then two
// readers may take it for different questions, and who checked it may have seen the other.
func Unclear(object wire.Value) bool {
	seen := make(map[string]bool)
	for m := range object.Members() {
		key := m.Key.Str()
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

func wantsTools(params wire.Raw) bool {
	root := wire.ValueOf(params)
	return root.Get("tools").Exists() || root.Get("toolChoice").Exists()
}

// Refused is the answer to a question that the client did not declare to
// answer. Exactly one of the two is not nil.
func Refused(c *call.Client, method string) (wire.Raw, *wire.Error) {
	switch {
	case method == wire.MethodElicit && c.Can("elicitation"):
		return nil, wire.Errorf(wire.CodeInvalidParams, "the client did not declare this mode of elicitation")
	case method == wire.MethodElicit:
		return Cancelled(), nil
	case method == wire.MethodSample && c.Can("sampling"):
		return nil, wire.Errorf(wire.CodeInvalidParams, "the client did not declare that it answers such a sampling request")
	default:
		return nil, wire.Errorf(wire.CodeMethodNotFound, "the client did not declare that it answers %s", method)
	}
}

// CheckAnswer reports what is wrong with the shape of an answer to a question,
// nil when a client may answer so. What is inside is for the upstream to judge.
func CheckAnswer(method string, answer wire.Value) *wire.Error {
	bad := func(what string) *wire.Error {
		return wire.Errorf(wire.CodeInvalidParams, "the answer to %s must be an object with %s", method, what)
	}
	switch method {
	case wire.MethodElicit:
		action, content := answer.Get("action"), answer.Get("content")
		known := action.IsString("accept") || action.IsString("decline") || action.IsString("cancel")
		if !known || content.Exists() && content.Kind() != '{' && content.Kind() != 'n' {
			return bad(`"action" accept, decline or cancel, and an object "content" where there is one`)
		}
	case wire.MethodSample:
		content := answer.Get("content").Kind()
		if answer.Get("role").Kind() != '"' || answer.Get("model").Kind() != '"' || content != '{' && content != '[' {
			return bad(`the strings "role" and "model", and "content"`)
		}
	case wire.MethodRootsList:
		if answer.Get("roots").Kind() != '[' {
			return bad(`the array "roots"`)
		}
	}
	return nil
}

// Label returns the params of a question so that users see who asks: the
// message of an elicitation begins with the upstream's name. Where the upstream
// repeats the member, every occurrence does.
func Label(upstream, method string, params wire.Raw) wire.Raw {
	if method != wire.MethodElicit {
		return params
	}
	label := wire.String(upstream + ": ")
	e := wire.NewEdit(params)
	for m := range e.Root().Members() {
		if m.Is("message") && m.Value.Kind() == '"' { // the rest of the text stays as it is written
			e.Replace(m.Value, append(label[:len(label)-1:len(label)-1], m.Value.Raw()[1:]...))
		}
	}
	return e.Bytes()
}

// NoContext returns the params of a question without a wish for the context of
// servers: what one server said is never shown to another.
func NoContext(method string, params wire.Raw) wire.Raw {
	if method != wire.MethodSample {
		return params
	}
	e := wire.NewEdit(params)
	for m := range e.Root().Members() {
		if m.Is("includeContext") && !m.Value.IsString("none") {
			e.ReplaceString(m.Value, "none")
		}
	}
	return e.Bytes()
}
