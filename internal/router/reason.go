package router

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Bounds of the reason in the log and in the audit.
const (
	maxReason    = 256      // bytes
	maxSaid      = 200      // bytes of what a server said within a reason
	leastSaid    = 80       // of them that stay although the rest of the reason is long
	maxMasked    = 16 << 10 // bytes of a text in which secrets are looked for
	maxHidden    = 256      // values of arguments that are looked for in the message of a server
	leastHidden  = 3        // bytes of a value that is looked for: shorter ones are parts of words
	hiddenValue  = "[…]"
	schemeMarker = "://"
)

// reasonOf returns in short words why a call failed, for the log and the audit, "" if it did
// not. A reason of the gateway is the detail of the error, else that of its data. One
// of an upstream has its code and its message, without values of the arguments and without
// secrets of the configuration.
func (r *Router) reasonOf(outcome string, c *call.Call, log *logFields, err error) string {
	switch outcome {
	case outcomeError, outcomeUnavailable, outcomeLimited, outcomeURLRequired, outcomeUnconfirmed, outcomeRefused, outcomeToolError, outcomeCancelled:
	default:
		return ""
	}
	switch {
	case log.reason != "" || outcome == outcomeCancelled:
		return log.reason
	case outcome == outcomeRefused && log.denial.made:
		return log.denial.reason(log.rule, c.Principal.Profile)
	case outcome == outcomeToolError:
		return "the tool reports an error in its result"
	case outcome == outcomeRefused && log.own:
		return "the gateway's own item cannot take this request" // its message may have them
	}
	rpc, ok := errors.AsType[*wire.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the call took too long"
	case !ok:
		return r.short(err.Error())
	case rpc.Raw != nil:
		return fmt.Sprintf("the server answered with error %d: %s", rpc.Code, r.said(rpc.Message, c.Params, maxReason))
	case rpc.Explain != nil:
		return r.short(of(rpc, log) + r.explained(rpc, c.Params))
	case rpc.Detail != "":
		return r.short(rpc.Detail)
	}
	data := wire.ValueOf(rpc.Data)
	if outcome == outcomeRefused && data.Get("uri").Exists() { // the message has it, and it may be an argument
		return "there is no such resource"
	}
	if reason, ok := data.Get("reason").Text(); ok {
		return r.short(of(rpc, log) + reason)
	}
	message := rpc.Message
	if lacked := leafNames(data.Get("requiredCapabilities"), ""); len(lacked) > 0 {
		message += ": " + strings.Join(lacked, ", ")
	}
	return r.short(message)
}

// of returns the beginning of a reason that names the upstream, "" if the line names it.
func of(rpc *wire.Error, log *logFields) string {
	if upstream := wire.ValueOf(rpc.Data).Get("upstream").Str(); upstream != "" && log.upstream == "" {
		return "upstream " + upstream + ": "
	}
	return ""
}

// explained returns the reason of a failed call with what the server said about it, which gets the room that the rest leaves.
func (r *Router) explained(rpc *wire.Error, params wire.Raw) string {
	rest := len(rpc.Explain(func(string) string { return "" }))
	most := min(maxSaid, max(leastSaid, maxReason-rest-len(` ("…")`)))
	return rpc.Explain(func(said string) string { return r.said(said, params, most) })
}

// said returns what a server said on one short line, without secrets of the configuration and without values of the
// arguments.
func (r *Router) said(text string, params wire.Raw, most int) string {
	return plaintext.Line(r.withoutArguments(plaintext.Clip(r.masked(text), 4*maxReason), params), most)
}

// short returns a text on one short line, without secrets of the configuration.
func (r *Router) short(text string) string { return plaintext.Line(r.masked(text), maxReason) }

// masked returns a text without secrets of the configuration, before it is cut to the length
// of a reason: of a secret that was cut in two, the beginning would stay.
func (r *Router) masked(text string) string {
	if len(text) <= maxMasked {
		return r.mask(text)
	}
	masked := r.mask(plaintext.Clip(text, maxMasked))
	if len(masked) < maxMasked/2 {
		return hiddenValue // so that the place of the cut is in no reason
	}
	return masked
}

// denial is what the log says of a call that policy denies, beside the rule. Its text is made
// when a line is written: until then an item that policy hides costs what an absent one does.
type denial struct {
	made        bool
	kind        call.Kind
	listed      bool          // the caller sees the item, so the arguments are denied
	scopes      []string      // the caller lacks nothing but one of them
	misspelling string        // why the URI is not canonical, "" if that does not matter
	view        *catalog.View // of the caller, without an item called name; nil if listed
	name        string
}

// reason says in short words why policy denies the call. The rule is that of the decision, and the
// profile that of the principal.
func (d *denial) reason(rule, profile string) string {
	it := "it"
	if d.listed {
		it = "these arguments"
	}
	switch {
	case len(d.scopes) > 0:
		return plaintext.Line("lacks one of the scopes "+strings.Join(d.scopes, ", "), maxReason)
	case d.misspelling != "" && rule == policy.RuleURI:
		return "the URI is neither listed nor canonical: " + d.misspelling
	}
	known, held, at, mayNot := "", "", "", false
	if rule == policy.RuleUnknown && d.view != nil {
		known = d.view.NameOf(d.kind, d.name)
		at, mayNot = d.view.UnknownAt(d.kind, d.name)
		if d.kind == call.Tool {
			held = d.view.HeldReason(d.name)
		}
	}
	switch {
	case rule != policy.RuleUnknown:
	case known != "" && profile != "":
		return plaintext.Line("its name in profile "+strconv.Quote(profile)+" is "+known, maxReason)
	case known != "":
		return plaintext.Line("its name in the default profile is "+known, maxReason)
	case held != "":
		return plaintext.Line("it is held by its pin: "+held, maxReason)
	case mayNot:
		return "the caller may not use it, and " + nothingKnown(d.kind, at)
	case at != "":
		return nothingKnown(d.kind, at)
	case profile != "":
		return "there is no such " + d.kind.String() + " in profile " + strconv.Quote(profile)
	default:
		return "there is no such " + d.kind.String()
	}
	switch rule {
	case policy.RuleDefault:
		return "no rule allows " + it
	case policy.RuleUpstreamDeny:
		return "a deny glob of the upstream covers it"
	case policy.RuleUpstreamAllow:
		return "no allow glob of the upstream covers it"
	case policy.RuleProfileDeny:
		return "a deny glob of the profile covers it"
	case policy.RuleProfileAllow:
		return "the profile does not select it"
	case policy.RuleURI:
		return "the URI is neither listed nor canonical"
	}
	return "rule " + strconv.Quote(rule) + " denies " + it
}

func nothingKnown(kind call.Kind, upstream string) string {
	return "nothing is known of the " + kind.String() + "s of upstream " + upstream + " now"
}

// endedEarly keeps why the context of a call ended before its answer, if that is why the call failed.
func (l *logFields) endedEarly(ctx context.Context, c *call.Call, err error) {
	if err == nil || l.reason != "" || !errors.Is(err, context.Canceled) {
		return
	}
	switch cause := context.Cause(ctx); {
	case cause != nil && cause != context.Canceled:
		l.reason = plaintext.Line(cause.Error(), maxReason)
		_, gone := errors.AsType[call.ClientGone](cause)
		l.stopped = !gone
	case c.Depth > 0:
		l.reason = "the call that made it has ended"
	default:
		l.reason = "the connection of the client has ended"
	}
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

// withoutArguments returns the masked message of a server without the values of the arguments that
// it repeats.
func (r *Router) withoutArguments(message string, params wire.Raw) string {
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
			if masked := r.mask(text); masked != text {
				message = withoutValue(message, masked)
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

// withoutValue returns the message without a value, in any of its forms.
func withoutValue(message, value string) string {
	if len(value) < leastHidden {
		return message
	}
	switch value {
	case "true", "false", "null":
		return message
	}
	for _, form := range plaintext.Forms(value) {
		message = withoutText(message, form)
	}
	return message
}

func withoutText(message, text string) string {
	message = strings.ReplaceAll(message, text, hiddenValue)
	// The message may have been cut within the text.
	cut, isCut := strings.CutSuffix(message, "…")
	if !isCut {
		return message
	}
	for n := min(len(text)-1, len(cut)); n >= leastHidden; n-- {
		if rest, found := strings.CutSuffix(cut, text[:n]); found {
			return rest + hiddenValue
		}
	}
	return message
}
