package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// updateWorkload sends one update of a resource to many subscribers.
func updateWorkload(n int) workload {
	const legacy, modern, bare = "gateway", "gateway, modern", "bare writes"
	return workload{
		Name:  "update",
		About: fmt.Sprintf("%d clients subscribe to a resource of an upstream. The figure is the time from its update to the arrival at the last client. On the path \"bare writes\" a server writes the event to %d open responses.", n, n),
		Paths: []path{
			{Name: bare, Start: func(ctx context.Context, s *stage) (measure, error) {
				server, err := s.role(ctx, role{Kind: roleBroadcast})
				if err != nil {
					return nil, err
				}
				return s.updates(ctx, &target{URL: server.URL}, server.URL, n)
			}},
			{Name: legacy, Via: viaGateway, Metrics: []metric{toLast}, Start: updates{Era: eraLegacy, N: n}.start},
			{Name: modern, Via: viaGateway, Metrics: []metric{toLast}, Start: updates{Era: eraModern, N: n}.start},
		},
		Ratios: []ratio{
			{Metric: toLast, Of: legacy, To: bare, AtMost: 1.5, Requirement: 4},
			{Metric: toLast, Of: modern, To: bare, AtMost: 1.5, Requirement: 4},
		},
	}
}

// updates describes a path on which clients of an era subscribe at the gateway.
type updates struct {
	Era string
	N   int
}

func (u updates) start(ctx context.Context, s *stage) (measure, error) {
	upstream, err := s.role(ctx, role{Kind: roleUpstream, Updates: true, Era: u.Era})
	if err != nil {
		return nil, err
	}
	config := newGatewayConfig(s.newFile("gateway"))
	config.addUpstream(gatewayUpstream, upstream.URL, eraLegacy)
	config.Limits = roomFor(u.N)
	g, err := s.startGateway(ctx, config)
	if err != nil {
		return nil, err
	}
	return s.updates(ctx, &target{URL: g.URL, Era: u.Era}, strings.TrimSuffix(upstream.URL, "mcp")+"control", u.N)
}

// updates opens n subscribed streams and returns the measurement of the time until
// all of them have an update, which a POST to trigger causes.
func (s *stage) updates(ctx context.Context, t *target, trigger string, n int) (measure, error) {
	all, err := s.openStreams(ctx, t, n, gatewayUpstream+"+"+resourceURI)
	if err != nil {
		return nil, err
	}
	number := 0
	return func(ctx context.Context) (sample, error) {
		var times []time.Duration
		for range 10 {
			number++
			took, err := all.awaitUpdate(ctx, trigger, fmt.Sprintf("update-%d", number))
			if err != nil {
				return nil, err
			}
			times = append(times, took)
		}
		return sample{toLast: milliseconds(median(times))}, nil
	}, nil
}

// awaitUpdate triggers the update with a name and returns the time until it is in
// all streams.
func (all streams) awaitUpdate(ctx context.Context, trigger, name string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, trigger+"?"+name, nil)
	if err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	failures := make([]error, len(all))
	for i, c := range all {
		c.conn.SetReadDeadline(time.Now().Add(ioTimeout))
		wg.Go(func() { failures[i] = c.await(strconv.Quote(name)) })
	}
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	wg.Wait()
	return time.Since(began), errors.Join(failures...)
}
