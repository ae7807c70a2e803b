package router

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Bounds of the reason in the log and in the audit.
const (
	maxReason    = 256 // bytes
	maxHidden    = 256 // values of arguments that are looked for in the message of a server
	leastHidden  = 3   // bytes of a value that is looked for: shorter ones are parts of words
	hiddenValue  = "[…]"
	schemeMarker = "://"
)

// reasonOf returns in short words why a call failed, for the log and the audit: "" if it did
// not, or if the caller is the reason. A reason of the gateway is the detail of the error, else that of its data. One
// of an upstream has its code and its message, without values of the arguments.
func reasonOf(outcome string, c *call.Call, log *logFields, err error) string {
	switch outcome {
	case outcomeCancelled:
		return log.reason
	case outcomeError, outcomeUnavailable, outcomeLimited, outcomeURLRequired, outcomeUnconfirmed:
	default:
		return ""
	}
	if log.reason != "" {
		return log.reason
	}
	rpc, ok := errors.AsType[*wire.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the call took too long"
	case !ok:
		return plaintext.Line(err.Error(), maxReason)
	case rpc.Raw != nil:
		return fmt.Sprintf("the server answered with error %d: %s", rpc.Code,
			plaintext.Line(withoutArguments(plaintext.Clip(rpc.Message, 4*maxReason), c.Params), maxReason))
	case rpc.Detail != "":
		return plaintext.Line(rpc.Detail, maxReason)
	}
	data := wire.ValueOf(rpc.Data)
	if reason, ok := data.Get("reason").Text(); ok {
		if upstream := data.Get("upstream").Str(); upstream != "" && log.upstream == "" { // the line names none
			reason = "upstream " + upstream + ": " + reason
		}
		return plaintext.Line(reason, maxReason)
	}
	message := rpc.Message
	if lacked := leafNames(data.Get("requiredCapabilities"), ""); len(lacked) > 0 {
		message += ": " + strings.Join(lacked, ", ")
	}
	return plaintext.Line(message, maxReason)
}

// reasonOfEnd returns why the context of a call ended before its answer: its cause, "" if that says nothing.
func reasonOfEnd(ctx context.Context) string {
	cause := context.Cause(ctx)
	if cause == nil || cause == context.Canceled {
		return ""
	}
	return plaintext.Line(cause.Error(), maxReason)
}

// leafNames returns the paths of the empty objects in an object, such as elicitation.url for
// {"elicitation":{"url":{}}}.
func leafNames(v wire.Value, prefix string) (names []string) {
	for m := range v.Members() {
		name := prefix + m.Key.Str()
		if below := leafNames(m.Value, name+"."); len(below) > 0 {
			names = append(names, below...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// withoutArguments returns the message of a server without the values of the arguments that it
// repeats.
func withoutArguments(message string, params wire.Raw) string {
	left := maxHidden
	var hide func(v wire.Value)
	hide = func(v wire.Value) {
		if left--; left < 0 {
			return
		}
		switch v.Kind() {
		case '{':
			for m := range v.Members() {
				hide(m.Value)
			}
		case '[':
			for el := range v.Elements() {
				hide(el)
			}
		default:
			text, ok := v.Text()
			if !ok {
				text = string(v.Raw())
			}
			message = withoutValue(message, text)
			if _, path, isURI := strings.Cut(text, schemeMarker); isURI {
				message = withoutValue(message, path)
			}
		}
	}
	root := wire.ValueOf(params)
	for _, member := range []string{"arguments", "argument", "uri"} {
		hide(root.Get(member))
	}
	if left < 0 {
		return hiddenValue // the message may repeat a value that was not looked for
	}
	return message
}

func withoutValue(message, value string) string {
	if len(value) < leastHidden {
		return message
	}
	switch value {
	case "true", "false", "null":
		return message
	}
	message = strings.ReplaceAll(message, value, hiddenValue)
	// The message may have been cut within the value.
	cut, isCut := strings.CutSuffix(message, "…")
	if !isCut {
		return message
	}
	for n := min(len(value)-1, len(cut)); n >= leastHidden; n-- {
		if rest, found := strings.CutSuffix(cut, value[:n]); found {
			return rest + hiddenValue
		}
	}
	return message
}
