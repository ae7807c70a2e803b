package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// legacyRevision makes the SDK's client begin with initialize. By default it tries the modern era first.
const legacyRevision = "2025-11-25"

type goSDK struct {
	era               string
	answers, declines bool
}

// GoSDK returns the Go SDK's client. It begins the connection in the given era.
func GoSDK(era string) Client { return goSDK{era: era} }

func (g goSDK) Name() string { return "Go SDK " + g.era }

func (g goSDK) Era() string { return g.era }

func (g goSDK) Can(method string) bool { return can(method, g.era) }

func (g goSDK) Run(t testing.TB, target Target, steps []Step) Transcript {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runWithin)
	defer cancel()
	progress := make(chan *mcp.ProgressNotificationParams, 1024) // more than any step reports
	var cancels sync.Map                                         // func() by progress token
	clientOptions := &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, request *mcp.ProgressNotificationClientRequest) {
			progress <- request.Params
			if cancel, ok := cancels.Load(request.Params.ProgressToken); ok {
				cancel.(func())()
			}
		},
	}
	var u *user
	if g.answers {
		u = newUser()
		u.declines = g.declines
		u.addHandlers(clientOptions)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk-client", Version: "1.0.0"}, clientOptions)
	if g.answers {
		//lint:ignore SA1019 deprecated in 2026-07-28, still valid
		client.AddRoots(home)
		client.AddReceivingMiddleware(u.watchAcks)
	}
	connections := &http.Transport{}
	defer connections.CloseIdleConnections()
	options := &mcp.ClientSessionOptions{}
	if g.era == Legacy {
		options.ProtocolVersion = legacyRevision
	}
	session, err := client.Connect(ctx, transport(t, target, &http.Client{Transport: withHeaders{connections, target.Headers}}), options)
	if err != nil {
		t.Fatalf("client %s: connect: %v", g.Name(), err)
	}
	defer session.Close()
	if u != nil && g.era == Modern { // the SDK subscribes to changes of lists
		if err := u.awaitAck(ctx); err != nil {
			t.Fatalf("client %s: %v", g.Name(), err)
		}
	}
	transcript := Transcript{Connect: &Outcome{Method: "connect", Result: mustJSON(session.InitializeResult())}}
	for i, step := range steps {
		token := ""
		stepCtx, cancelStep := context.WithCancel(ctx)
		if step.Progress > 0 || step.Cancel > 0 {
			token = fmt.Sprintf("step-%d", i)
		}
		if step.Cancel > 0 {
			var updates atomic.Int64
			cancels.Store(token, func() {
				if updates.Add(1) == int64(step.Cancel) {
					cancelStep()
				}
			})
		}
		outcome := Outcome{Method: step.Method}
		result, err := carryOutBoth(stepCtx, session, step, token)
		if err == nil && u != nil && g.era == Modern && step.Method == "resources/subscribe" {
			err = u.awaitAck(stepCtx)
		}
		for seen := 0; step.Until != nil && err == nil && !strings.Contains(string(mustJSON(result)), step.Until.Has); {
			if !u.await(step, func() bool { return u.count(step.Until.Method) > seen }) {
				break
			}
			seen = u.count(step.Until.Method)
			result, err = carryOut(stepCtx, session, step, token)
		}
		cancelStep()
		if err != nil {
			outcome.Error = describe(err)
		} else {
			outcome.Result = mustJSON(result)
		}
		late := time.After(progressWithin)
		for waiting := true; waiting && len(outcome.Progress) < step.Progress; {
			select {
			case update := <-progress:
				if update.ProgressToken == token {
					outcome.Progress = append(outcome.Progress, mustJSON(update))
				}
			case <-late:
				waiting = false
			}
		}
		if u != nil {
			if err == nil {
				u.await(step, func() bool { return u.have(step.Await) })
			}
			outcome.Events = u.take()
		}
		transcript.Steps = append(transcript.Steps, outcome)
	}
	return transcript
}

// withHeaders adds headers to each request.
type withHeaders struct {
	http.RoundTripper
	headers map[string]string
}

// RoundTrip implements http.RoundTripper.
func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(w.headers) > 0 {
		r = r.Clone(r.Context())
		for name, value := range w.headers {
			r.Header.Set(name, value)
		}
	}
	return w.RoundTripper.RoundTrip(r)
}

func transport(t testing.TB, target Target, client *http.Client) mcp.Transport {
	switch {
	case target.URL != "":
		transport := &mcp.StreamableClientTransport{Endpoint: target.URL, HTTPClient: client, MaxRetries: -1}
		if target.Restart {
			transport.MaxRetries = 0 // the SDK's default
		}
		if target.OAuth {
			transport.OAuthHandler = autoConsent(t, client)
		}
		return transport
	case target.SSE != "":
		return &mcp.SSEClientTransport{Endpoint: target.SSE, HTTPClient: client}
	}
	cmd := exec.Command(target.Command[0], target.Command[1:]...)
	cmd.Env = os.Environ()
	for key, value := range target.Env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	return &mcp.CommandTransport{Command: cmd}
}

// carryOutBoth carries out a step and its During step at the same time.
func carryOutBoth(ctx context.Context, session *mcp.ClientSession, step Step, token string) (result any, err error) {
	if step.During == nil {
		return carryOut(ctx, session, step, token)
	}
	meanwhile := make(chan error, 1)
	go func() {
		_, err := carryOut(ctx, session, *step.During, "")
		meanwhile <- err
	}()
	result, err = carryOut(ctx, session, step, token)
	return result, errors.Join(err, <-meanwhile)
}

func carryOut(ctx context.Context, session *mcp.ClientSession, step Step, token string) (any, error) {
	switch step.Method {
	case "tools/list":
		return collect(session.Tools(ctx, nil))
	case "resources/list":
		return collect(session.Resources(ctx, nil))
	case "resources/templates/list":
		return collect(session.ResourceTemplates(ctx, nil))
	case "prompts/list":
		return collect(session.Prompts(ctx, nil))
	case "tools/call":
		params, err := typed[mcp.CallToolParams](step.Params)
		if err != nil {
			return nil, err
		}
		if token != "" {
			params.SetProgressToken(token)
		}
		return session.CallTool(ctx, params)
	case "resources/read":
		return request(ctx, step, session.ReadResource)
	case "prompts/get":
		return request(ctx, step, session.GetPrompt)
	case "completion/complete":
		return request(ctx, step, session.Complete)
	case "logging/setLevel":
		//lint:ignore SA1019 deprecated in 2026-07-28, still valid in earlier revisions
		return request(ctx, step, func(ctx context.Context, params *mcp.SetLoggingLevelParams) (struct{}, error) {
			//lint:ignore SA1019 as above
			return struct{}{}, session.SetLoggingLevel(ctx, params)
		})
	case "resources/subscribe":
		return request(ctx, step, func(ctx context.Context, params *mcp.SubscribeParams) (struct{}, error) {
			return struct{}{}, session.Subscribe(ctx, params)
		})
	case "resources/unsubscribe":
		return request(ctx, step, func(ctx context.Context, params *mcp.UnsubscribeParams) (struct{}, error) {
			return struct{}{}, session.Unsubscribe(ctx, params)
		})
	case "ping":
		return struct{}{}, session.Ping(ctx, nil)
	}
	return nil, fmt.Errorf("the plan has a method that this client does not support: %s", step.Method)
}

// collect reads all pages. The number of pages is unknown, because the SDK's iterator does not report it.
func collect[T any](items iter.Seq2[T, error]) (any, error) {
	all := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return map[string]any{"items": all}, nil
}

func request[P, R any](ctx context.Context, step Step, do func(context.Context, *P) (R, error)) (any, error) {
	params, err := typed[P](step.Params)
	if err != nil {
		return nil, err
	}
	return do(ctx, params)
}

func typed[P any](params map[string]any) (*P, error) {
	value := new(P)
	if err := json.Unmarshal(mustJSON(params), value); err != nil {
		return nil, fmt.Errorf("invalid params of a step: %w", err)
	}
	return value, nil
}

func describe(err error) *Error {
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &Error{Code: int(wire.Code), Message: wire.Message, Data: wire.Data}
	}
	return &Error{Message: err.Error()}
}
