package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// path is one way from the clients to the upstream.
type path struct {
	Name string
	URL  string
	Tool string // the tool's public name on this path
	PID  int    // the measured process: the proxy, or the upstream on the direct path
}

// load is the load on each path in a round.
type load struct {
	Era      string
	Clients  int
	Warmup   time.Duration // before the counted part
	Duration time.Duration // of the counted part
}

// sample is the outcome of one round on one path.
type sample struct {
	PerSecond float64 // counted calls
	P50, P99  time.Duration
	// CPU is the processor time that the measured process took for one call. It
	// hardly depends on the rest of the machine, unlike the other figures.
	CPU time.Duration
}

// run puts the load on p and measures it. The first error of a client ends the
// round; a wrong answer is an error.
func (l load) run(ctx context.Context, p path) (sample, error) {
	ctx, stopTimer := context.WithTimeoutCause(ctx, l.Warmup+l.Duration+2*ioTimeout,
		errors.New("the round did not end in time"))
	defer stopTimer()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	clients := make([]*client, 0, l.Clients)
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for number := range l.Clients {
		c, err := openClient(ctx, p.URL, l.Era, p.Tool, number)
		if err != nil {
			return sample{}, fmt.Errorf("%s: %w", p.Name, err)
		}
		clients = append(clients, c)
	}

	var (
		wg        sync.WaitGroup
		latencies = make([][]time.Duration, l.Clients)
		begin     = time.Now().Add(l.Warmup)
		end       = begin.Add(l.Duration)
	)
	for i, c := range clients {
		wg.Go(func() {
			var err error
			if latencies[i], err = c.repeat(begin, end); err != nil {
				fail(err)
			}
		})
	}
	var cpu [2]time.Duration
	for i, at := range []time.Time{begin, end} {
		wg.Go(func() {
			select {
			case <-time.After(time.Until(at)):
				cpu[i] = cpuTime(p.PID)
			case <-ctx.Done():
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return sample{}, fmt.Errorf("%s: %w", p.Name, err)
	}
	all := slices.Concat(latencies...)
	if len(all) == 0 {
		return sample{}, fmt.Errorf("%s: no call ended within %s", p.Name, l.Duration)
	}
	slices.Sort(all)
	return sample{
		PerSecond: float64(len(all)) / l.Duration.Seconds(),
		P50:       quantile(all, 0.50),
		P99:       quantile(all, 0.99),
		CPU:       (cpu[1] - cpu[0]) / time.Duration(len(all)),
	}, nil
}

// repeat makes calls until end. It returns the durations of the calls that began
// and ended between begin and end.
func (c *client) repeat(begin, end time.Time) ([]time.Duration, error) {
	c.conn.SetDeadline(end.Add(ioTimeout))
	latencies := make([]time.Duration, 0, 1<<16)
	for started := time.Now(); started.Before(end); {
		if err := c.call(); err != nil {
			return nil, err
		}
		ended := time.Now()
		if !started.Before(begin) && !ended.After(end) {
			latencies = append(latencies, ended.Sub(started))
		}
		started = ended
	}
	return latencies, nil
}
