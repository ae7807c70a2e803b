package bridge

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// codeRejected is the code that the specification shows for sampling that did
// not take place (2025-11-25, client/sampling, "Error Handling").
const codeRejected = -1

// asks are the requests that a server may put to a client.
var asks = map[string]ask{
	wire.MethodElicit: {
		required:   requiredToElicit,
		fit:        fitElicitation,
		violation:  elicitationViolation,
		undeclared: cancelled,
		wrongMode:  "the client did not declare this mode of elicitation",
		lapsed:     cancelled,
	},
	wire.MethodSample: {
		required:  requiredToSample,
		fit:       fitSampling,
		violation: samplingViolation,
		wrongMode: "the client did not declare that it answers such a sampling request",
		lapsed: func() (wire.Raw, *wire.Error) {
			return nil, wire.Errorf(codeRejected, "the client cannot be reached")
		},
	},
	wire.MethodRootsList: {
		required: func(c *call.Client, _ wire.Raw) wire.Raw {
			return unless(c.Can("roots"), `{"roots":{}}`)
		},
		violation: func(answer wire.Value) string {
			return unlessText(answer.Get("roots").Kind() == '[', `the array "roots"`)
		},
	},
}

// ask says how one method of a server's requests is treated. Fields may be nil or "".
type ask struct {
	// required returns the capabilities that the client lacks, nil for none.
	required func(c *call.Client, params wire.Raw) wire.Raw
	// fit returns the params in the form of a revision before 2025-11-25, and whether
	// there is such a form.
	fit func(rev wire.Revision, params wire.Raw) (wire.Raw, bool)
	// violation returns what an answer must have and lacks, "" for nothing.
	violation func(answer wire.Value) string
	// undeclared answers for a client that did not declare the capability at all;
	// wrongMode is the error for one that declared it in another mode.
	undeclared func() (wire.Raw, *wire.Error)
	wrongMode  string
	// lapsed answers for a client that did not answer.
	lapsed func() (wire.Raw, *wire.Error)
}

// CancelledElicitation is the answer to an elicitation that the client left unanswered. It is not
// "decline", which would say that the user refused.
func CancelledElicitation() wire.Raw { return wire.Raw(`{"action":"cancel"}`) }

func cancelled() (wire.Raw, *wire.Error) { return CancelledElicitation(), nil }

// Unanswered returns the answer to a question that reached no client, or that no client
// answered in time. Exactly one of the two is not nil.
func Unanswered(method string) (wire.Raw, *wire.Error) {
	if lapsed := asks[method].lapsed; lapsed != nil {
		return lapsed()
	}
	return nil, wire.Errorf(wire.CodeInternal, "the client cannot be reached")
}

// Declared reports whether the client declared that it answers such a question.
func Declared(c *call.Client, method string, params wire.Raw) bool {
	return MissingCapabilities(c, method, params) == nil
}

// MissingCapabilities returns the capabilities that the client lacks for a question, nil for
// none: an object as in the data of a MissingRequiredClientCapabilityError.
func MissingCapabilities(c *call.Client, method string, params wire.Raw) wire.Raw {
	if required := asks[method].required; required != nil {
		return required(c, params)
	}
	return wire.Raw(`{}`)
}

func requiredToElicit(c *call.Client, params wire.Raw) wire.Raw {
	if mode := wire.ValueOf(params).Get("mode").Str(); mode != "" && mode != "form" {
		required := wire.SetMember(wire.Raw(`{}`), mode, wire.Raw(`{}`))
		return unless(c.Can("elicitation", mode), string(wire.SetMember(wire.Raw(`{}`), "elicitation", required)))
	}
	// A capability that names no mode means forms (2025-11-25, client/elicitation).
	forms := c.Can("elicitation") && (!c.Can("elicitation", "url") || c.Can("elicitation", "form"))
	return unless(forms, `{"elicitation":{"form":{}}}`)
}

func requiredToSample(c *call.Client, params wire.Raw) wire.Raw {
	if wantsTools(params) && !c.Can("sampling", "tools") {
		return wire.Raw(`{"sampling":{"tools":{}}}`)
	}
	return unless(c.Can("sampling"), `{"sampling":{}}`)
}

// unless returns nil if ok is true, else the capabilities.
func unless(ok bool, capabilities string) wire.Raw {
	if ok {
		return nil
	}
	return wire.Raw(capabilities)
}

// unlessText returns "" if ok is true, else the text.
func unlessText(ok bool, text string) string {
	if ok {
		return ""
	}
	return text
}

// HasDuplicateMember reports whether an object, a question or its params, has a member twice.
// Two readers may then take it for different questions, and the gateway may have
// checked the one that the client does not read.
func HasDuplicateMember(object wire.Value) bool {
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

// Undeclared returns the answer to a question that the client did not declare to
// answer. Exactly one of the two is not nil.
func Undeclared(c *call.Client, method string) (wire.Raw, *wire.Error) {
	a := asks[method]
	switch {
	case a.wrongMode != "" && c.Can(wire.MethodOf(method).Capability):
		return nil, wire.Errorf(wire.CodeInvalidParams, "%s", a.wrongMode)
	case a.undeclared != nil:
		return a.undeclared()
	default:
		return nil, wire.Errorf(wire.CodeMethodNotFound, "the client did not declare that it answers %s", method)
	}
}

// CheckAnswer returns what is wrong with the shape of an answer to a question, nil
// for nothing. The upstream judges the content.
func CheckAnswer(method string, answer wire.Value) *wire.Error {
	violation := asks[method].violation
	if violation == nil {
		return nil
	}
	if lacks := violation(answer); lacks != "" {
		return wire.Errorf(wire.CodeInvalidParams, "the answer to %s must be an object with %s", method, lacks)
	}
	return nil
}

func elicitationViolation(answer wire.Value) string {
	action, content := answer.Get("action"), answer.Get("content")
	known := action.IsString("accept") || action.IsString("decline") || action.IsString("cancel")
	return unlessText(known && (!content.Exists() || content.Kind() == '{' || content.Kind() == 'n'),
		`"action" accept, decline or cancel, and an object "content" where there is one`)
}

func samplingViolation(answer wire.Value) string {
	content := answer.Get("content").Kind()
	return unlessText(answer.Get("role").Kind() == '"' && answer.Get("model").Kind() == '"' && (content == '{' || content == '['),
		`the strings "role" and "model", and "content"`)
}

// LabelUpstream returns the params of a question with the name of the upstream at the
// beginning of the message of an elicitation, so that users see which server asks.
// If the upstream repeats the member, every occurrence gets the name.
func LabelUpstream(upstream, method string, params wire.Raw) wire.Raw {
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

// WithoutContext returns the params of a question without a request for the context of
// servers, because what one server said is never shown to another.
func WithoutContext(method string, params wire.Raw) wire.Raw {
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
