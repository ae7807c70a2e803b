package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
	data := wire.ValueOf(rpc.Data)
	upstream := data.Get("upstream").Str()
	switch {
	case upstream == "" && isUnknownTool(rpc) && !strings.Contains(rpc.Message, "did you mean"):
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
	why := rpc.Detail
	of := "upstream " + upstream + ": "
	for _, u := range v.Upstreams() {
		if u.Name == upstream && u.State == connector.Down && u.Reason != "" {
			of, why = "upstream "+upstream+" is down: ", u.Reason
		}
	}
	switch {
	case why == "":
		return err
	case o.url != "": // the user knows no upstream, and the advice has the address
		of = ""
	}
	return errors.New(of + console.Line(o.reason(why)))
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

func isUnknownTool(e *wire.Error) bool { return strings.HasPrefix(e.Message, "unknown tool") }

// failure is the error of a call as text for people.
func (o *callOptions) failure(err error) error {
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		text := console.Line(rpc.Message)
		if isUnknownTool(rpc) {
			list := "gateway list tools"
			switch {
			case o.url != "":
				list += " --url URL"
			case o.profile != "":
				list += " --profile " + o.profile
			}
			text += " (" + list + " shows the names)"
		}
		for e := range wire.ValueOf(rpc.Data).Get("elicitations").Elements() {
			text += "\n  open this address, then call again: " + console.Line(e.Get("url").Str())
		}
		return errors.New(text)
	}
	return err
}
