package gateway

import (
	"context"
	"errors"
	"testing"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/upstream/connector"
)

func TestNoCallWaits(t *testing.T) {
	g, _ := start(t, "startup_wait: 1ms\nupstreams: {gone: {command: /no/such/program, max_queue: 0}, other: {command: /no/such/program}}", false)
	for i, want := range []int{-1, 256} {
		u := g.cfg.Upstreams[i]
		if o, err := g.options(u.Name, u.ConnectionHash(), u.Connection); err != nil || o.MaxQueue != want {
			t.Errorf("%s: at most %d calls wait, want %d; %v", u.Name, o.MaxQueue, want, err)
		}
	}
}

// An upstream that is down watches the gateway's own grant, whatever its failure was.
func TestDownUpstreamWatchesItsGrant(t *testing.T) {
	as := gatewaytest.NewAuthServer(t, nil)
	server := newVault(t, as, true, "use")
	g, _ := start(t, "startup_wait: 1ms\nupstreams: {v: {url: '"+server.url+"', auth: {kind: user}}}", false)
	g.cfg.StateDir = g.state.Path()
	u := g.cfg.Upstreams[0]
	o, err := g.options(u.Name, u.ConnectionHash(), u.Connection)
	if err != nil || o.NewCredentials == nil || o.NewCredentials() {
		t.Fatalf("without a grant there is a new one, or nobody watches; %v", err)
	}
	logIn(t, "v")(g.cfg)
	if !o.NewCredentials() {
		t.Error("it does not notice the grant")
	}
	asked := make(chan struct{}, 1)
	o = g.commonOptions("broken")
	o.Unusable = errors.New("it does not work")
	o.NewCredentials = func() bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		return false
	}
	c := g.newConnection("", o, connector.Lifetime{}, connector.HealthSettings{})
	ctx, end := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- c.sessions.Run(ctx) }()
	<-asked
	end()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
