package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/call"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// advised adds to an error what clients of a gateway do not get: why an upstream is down or has ended, and the names that
// are near to an unknown one. changed has a value after the state of an upstream has changed.
func (o *callOptions) advised(ctx context.Context, err error, v *gateway.InProcess, who *call.Principal, name string, changed <-chan struct{}) error {
	rpc, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return err
	}
	if o.url != "" && o.isUnknown(rpc) {
		message := rpc.Message
		if !strings.Contains(message, "did you mean") {
			message += o.near
		}
		missing, _ := unavailableBehind(ctx, v)
		return &wire.Error{Code: rpc.Code, Message: message + missingThere(missing, name, strings.HasSuffix(message, "?")), Data: rpc.Data}
	}
	data := wire.ValueOf(rpc.Data)
	upstream := data.Get("upstream").Str()
	switch {
	case upstream == "" && o.isUnknown(rpc) && !strings.Contains(rpc.Message, "did you mean"):
		// The gateway asks no upstream about a name with a prefix that no upstream has.
		if v.WaitStarted(ctx) == nil {
			near := v.Table(who.Profile).View(who, nil).SimilarNames(call.Tool, name)
			return &wire.Error{Code: rpc.Code, Message: rpc.Message + didYouMeanOne(near), Data: rpc.Data}
		}
	case data.Get("reason").IsString(protocol.ReasonConnectionLost):
		if why := endOf(ctx, v, upstream, changed); why != "" {
			return fmt.Errorf("%s: %s", rpc.Message, console.Line(why))
		}
	}
	why, answered := rpc.Detail, false
	of := "upstream " + upstream + ": "
	for _, u := range v.Upstreams() {
		if u.Name != upstream {
			continue
		}
		if answered = u.Revision != ""; u.State == connector.Down && u.Reason != "" {
			of, why = "upstream "+upstream+" is down: ", u.Reason
		}
	}
	reason := data.Get("reason").Str()
	if rpc.Explain != nil && why == rpc.Detail {
		why = rpc.Explain(func(said string) string { return said }) // the arguments are those of the user
		if rpc.Detail == "" {
			return &wire.Error{Code: rpc.Code, Message: strings.TrimSuffix(rpc.Message, reason) + why, Data: rpc.Data}
		}
	}
	if why == "" {
		return err
	}
	return errors.New(o.downText(of, reason, why, answered))
}

// downText says why a server cannot be used. of names the upstream, and reason is that of the call: one whose connection
// broke has reached the server, which may be gone by now. answered says that the server has answered the handshake before.
func (o *callOptions) downText(of, reason, why string, answered bool) string {
	if o.url != "" { // the user knows no upstream, and the advice has the address
		of = ""
	}
	switch {
	case reason == protocol.ReasonConnectionBroken || reason == protocol.ReasonConnectionLost:
		of = reason + "; now " + of
	case o.url != "" && answered && strings.HasPrefix(why, diagnose.NothingListens): // the address is right
		of = "the server answered before and has ended the connection since, as one that shuts down; now "
	}
	return console.Line(of + o.reason(why))
}

// missingThere says which upstreams are missing in the lists of a gateway: those with which the name of a tool begins. If
// there are none, and no other name was suggested, it names all.
func missingThere(all []unavailable, name string, suggested bool) (text string) {
	likely := slices.DeleteFunc(slices.Clone(all), func(u unavailable) bool { return !strings.HasPrefix(name, u.Upstream) })
	separator := "; "
	if suggested {
		separator = " "
	} else if len(likely) == 0 {
		likely = all
	}
	for _, u := range likely {
		text += fmt.Sprintf("%s%s is missing there: %s", separator, u.Upstream, u.Reason)
		separator = "; "
	}
	return text
}

// ended says why a call has ended with ctx, and at the end of --timeout what was waited for.
func (o *callOptions) ended(ctx context.Context, v *gateway.InProcess) error {
	why := context.Cause(ctx)
	if !errors.Is(why, errTimeout) {
		return why
	}
	for _, u := range v.Upstreams() {
		switch {
		case u.Took > 0:
		case o.url != "":
			return fmt.Errorf("%w: the server at %s has not finished its start", why, o.url)
		default:
			return fmt.Errorf("%w: the upstream %s has not finished its start", why, u.Name)
		}
	}
	return fmt.Errorf("%w: the tool has not answered", why)
}

// maxEnd is how long call waits for the reason for which a server has ended: the call ends first.
const maxEnd = time.Second

// endOf returns why a server has ended, "" if that does not become known.
func endOf(ctx context.Context, v *gateway.InProcess, upstream string, changed <-chan struct{}) string {
	timeout := time.NewTimer(maxEnd)
	defer timeout.Stop()
	for {
		for _, u := range v.Upstreams() {
			if u.Name == upstream && u.LastError != nil {
				return strings.TrimSuffix(u.LastError.Reason, diagnose.StartedAgain)
			}
		}
		select {
		case <-changed:
		case <-timeout.C:
			return ""
		case <-ctx.Done():
			return ""
		}
	}
}

// isUnknown reports whether an error says that there is no such tool. Servers say it in words of their own, with one of two codes.
func (o *callOptions) isUnknown(e *wire.Error) bool {
	return strings.HasPrefix(e.Message, "unknown tool") || o.unlisted && (e.Code == wire.CodeInvalidParams || e.Code == wire.CodeMethodNotFound)
}

// namesHint says at the end of an error how the user finds the names of the tools.
func (o *callOptions) namesHint() string {
	list := "gateway list tools"
	switch {
	case o.url != "":
		list += " --url URL"
	case o.profile != "":
		list += " --profile " + o.profile
	}
	return " (" + list + advice.ConfigFlag() + " shows the names)"
}

// failure is the error of a call as text for people.
func (o *callOptions) failure(err error) error {
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		text := console.Line(rpc.Message)
		if o.isUnknown(rpc) {
			text += o.namesHint()
		}
		if id := wire.ValueOf(rpc.Data).Get("requestId").Str(); o.url != "" && id != "" { // the gateway at --url logs it
			text += " (request " + console.Line(id) + ")"
		}
		for e := range wire.ValueOf(rpc.Data).Get("elicitations").Elements() {
			text += "\n  open this address, then call again: " + console.Line(e.Get("url").Str())
		}
		return errors.New(text)
	}
	return err
}

// withholdsAddress reports whether a server at --url has refused a call without the address of the page to open, because
// the client does not declare that it can open one. Without a terminal the client declares no elicitation: many servers
// take that of addresses for that of forms.
func withholdsAddress(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	return ok && wire.ValueOf(rpc.Data).Get("requiredCapabilities", "elicitation", "url").Exists()
}
