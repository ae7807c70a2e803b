package gateway

import "testing"

func TestNoCallWaits(t *testing.T) {
	g, _ := start(t, "startup_wait: 1ms\nupstreams: {gone: {command: /no/such/program, max_queue: 0}, other: {command: /no/such/program}}", false)
	for i, want := range []int{-1, 256} {
		u := g.cfg.Upstreams[i]
		if o, err := g.options(u.Name, u.ConnectionHash(), u.Connection); err != nil || o.MaxQueue != want {
			t.Errorf("%s: at most %d calls wait, want %d; %v", u.Name, o.MaxQueue, want, err)
		}
	}
}
