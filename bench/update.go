package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// updateWorkload sends updates of a resource to many subscribers. Each turn starts
// the processes again.
func updateWorkload(n int) workload {
	const legacy, modern, bare = "gateway", "gateway, modern", "bare writes"
	w := workload{
		Name:  "update",
		About: fmt.Sprintf("%d clients subscribe to a resource of an upstream. The figure is the median time from its update to the arrival at the last client, of ten updates. On the path \"bare writes\" a server writes the event to %d open responses.", n, n),
		Ratios: []ratio{
			{Metric: toLast, Of: legacy, To: bare, AtMost: 1.5, Requirement: 4},
			{Metric: toLast, Of: modern, To: bare, AtMost: 1.5, Requirement: 4},
		},
	}
	for _, p := range []struct{ name, era string }{{bare, ""}, {legacy, eraLegacy}, {modern, eraModern}} {
		next := path{Name: p.name, Metrics: []metric{toLast}, Start: func(_ context.Context, s *stage) (measure, error) {
			return func(ctx context.Context) (sample, error) { return updates(ctx, s, p.era, n) }, nil
		}}
		if p.era != "" {
			next.Via = viaGateway
		}
		w.Paths = append(w.Paths, next)
	}
	return w
}

// updates subscribes n clients of an era to a resource, and measures its updates.
// Without an era they read bare writes.
func updates(ctx context.Context, s *stage, era string, n int) (figures sample, err error) {
	turn := s.forTurn()
	defer func() { err = errors.Join(err, turn.Close()) }()
	upstream, err := turn.role(ctx, role{Kind: roleUpstream, Updates: true})
	if err != nil {
		return nil, err
	}
	t := &target{URL: upstream.URL, Era: era}
	if era != "" {
		config := newGatewayConfig(turn.newFile("gateway"))
		config.addUpstream(gatewayUpstream, upstream.URL, eraLegacy)
		config.Limits = roomFor(n)
		g, err := turn.startGateway(ctx, config)
		if err != nil {
			return nil, err
		}
		t.URL = g.URL
	}
	all, err := turn.openStreams(ctx, t, n, gatewayUpstream+"+"+resourceURI)
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for i := range 10 {
		took, err := all.awaitUpdate(ctx, upstream.control(), fmt.Sprintf("update-%d", i))
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return sample{toLast: milliseconds(median(times))}, nil
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
