package gateway

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/ruleset"
	"mcpgateway/internal/statedir"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// noClient is a back channel without a client.
type noClient struct{}

func (noClient) Notify(string, wire.Raw) {}
func (noClient) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeMethodNotFound, "no client answers")
}

// inProcess makes a gateway for RunInProcess.
func inProcess(t *testing.T, yaml, state string, watch func(inspect.Upstream)) *Gateway {
	t.Helper()
	cfg := config.Default(func(string) (string, bool) { return "", false })
	if yaml != "" {
		var err error
		if cfg, err = config.Parse("gateway.yaml", []byte(yaml), os.LookupEnv, ruleset.CheckConditions()); err != nil {
			t.Fatal(err)
		}
	}
	cfg.StateDir = state
	g, err := New(Options{Config: cfg, Demo: yaml == "", Version: "test", Logger: zap.NewNop(), InProcess: true, Watch: watch})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestInProcess(t *testing.T) {
	var mu sync.Mutex
	reported := map[string]inspect.Upstream{}
	g := inProcess(t, "", t.TempDir(), func(u inspect.Upstream) {
		mu.Lock()
		defer mu.Unlock()
		if u.Took > 0 {
			reported[u.Name] = u
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	sentinel := errors.New("the visitor's own")
	err := g.RunInProcess(ctx, func(ctx context.Context, p *InProcess) error {
		if err := p.WaitStarted(ctx); err != nil {
			return err
		}
		var names []string
		for _, u := range p.Upstreams() {
			names = append(names, u.Name)
			if u.State != connector.Ready || u.Took <= 0 || u.Items[call.Tool] == 0 || u.Revision == "" {
				t.Errorf("%s is %+v", u.Name, u)
			}
		}
		if got := strings.Join(names, " "); got != "cafe clock notes" {
			t.Errorf("upstreams %s", got)
		}
		listed := map[string]string{}
		for _, e := range p.Table("").View(call.Anonymous, nil).Entries(call.Tool) {
			listed[e.Public] = e.Upstream()
		}
		if listed["clock__now"] != "clock" {
			t.Errorf("listed %v", listed)
		}
		c := &call.Call{
			ID: "1", Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"clock__now","arguments":{"zone":"UTC"}}`),
			Principal: call.Anonymous, Client: &call.Client{Key: "k", Revision: wire.Rev20251125}, Back: noClient{},
		}
		res, err := p.Call(ctx, c)
		if err != nil || !strings.Contains(string(res.Raw), "UTC") {
			t.Errorf("result %s, %v", res.Raw, err)
		}
		native := c.With(wire.Raw(`{"name":"now","arguments":{"zone":"UTC"}}`))
		if res, err = p.CallUpstream(ctx, "clock", native); err != nil || !strings.Contains(string(res.Raw), "UTC") {
			t.Errorf("direct result %s, %v", res.Raw, err)
		}
		return sentinel
	})
	if !errors.Is(err, sentinel) {
		t.Errorf("error %v, want the visitor's", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(reported) != 3 {
		t.Errorf("the reported upstreams are %v", reported)
	}
}

// Without a client on a pipe, upstreams must not wait for one before they start.
func TestInProcessWaitsForNoClient(t *testing.T) {
	g := inProcess(t, "", t.TempDir(), nil)
	defer g.Close()
	if g.onlyClient != nil {
		t.Error("the first sessions with upstreams wait for a client")
	}
}

func TestInProcessEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := inProcess(t, `upstreams: {mute: {command: sleep, args: ["1000"]}}`, "", nil).RunInProcess(ctx, func(inside context.Context, p *InProcess) error {
		cancel(why)
		if err := p.WaitStarted(inside); err == nil {
			t.Error("the silent server has started")
		}
		return context.Cause(inside)
	})
	if !errors.Is(err, why) {
		t.Errorf("error %v, want the cause", err)
	}
}

// The reason why an upstream is down is the advice for operators.
func TestInProcessReportsReasons(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	err := inProcess(t, `upstreams: {gone: {command: /no/such/program, required: true}}`, "", nil).RunInProcess(ctx, func(ctx context.Context, p *InProcess) error {
		if err := p.WaitStarted(ctx); err != nil {
			return err
		}
		u := p.Upstreams()[0]
		if u.State != connector.Down || !u.Required || !strings.Contains(u.Reason, `"/no/such/program"`) || u.Took > time.Minute {
			t.Errorf("status %+v", u)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRememberedTableNeedsNoConnection(t *testing.T) {
	state, yaml := t.TempDir(), `upstreams: {self: {command: /no/such/program}}`
	g := inProcess(t, yaml, state, nil)
	defer g.Close()
	if n := len(g.RememberedTable("").View(call.Anonymous, nil).Entries(call.Tool)); n != 0 {
		t.Errorf("%d tools without a client", n)
	}
	g.state.RememberCatalog(g.generation.Load().entries[0].conn.key, &statedir.Catalog{Revision: wire.Rev20251125, Tools: statedir.FromRaw([]wire.Raw{wire.Raw(`{"name":"a","inputSchema":{"type":"object"}}`)})})
	later := inProcess(t, yaml, state, nil) // remembered catalogs are read once
	defer later.Close()
	if got := later.RememberedTable("").View(call.Anonymous, nil).Entries(call.Tool); len(got) != 1 || got[0].Public != "self__a" {
		t.Errorf("remembered %v", got)
	}
}
