package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// heldCalls describes a path on which calls with large messages are in flight at
// once while memory is measured. Each turn starts the measured process.
type heldCalls struct {
	Via    string
	N      int
	Upload bool // the request is large, and the upstream holds it; else clients read slowly
}

func (h heldCalls) path(name string) path {
	return path{Name: name, Via: h.Via, Metrics: []metric{ofSize}, Start: func(_ context.Context, s *stage) (measure, error) {
		return func(ctx context.Context) (sample, error) { return h.measure(ctx, s) }, nil
	}}
}

// measure returns by how much resident memory grows with each call in flight. All
// calls end before it returns, and their answers are checked.
func (h heldCalls) measure(ctx context.Context, s *stage) (figures sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, 6*ioTimeout)
	defer cancel()
	turn := s.forTurn()
	defer func() { err = errors.Join(err, turn.Close()) }()
	upstream, err := turn.role(ctx, role{Kind: roleUpstream})
	if err != nil {
		return nil, err
	}
	t := &target{Era: eraLegacy, Tools: []string{toolName}, callArguments: callArguments{Size: 100}}
	pid, err := calls{Via: h.Via, Era: eraLegacy, UpstreamEra: eraLegacy}.serve(ctx, turn, t)
	if err != nil {
		return nil, err
	}
	// Small calls first, so that what is allocated once does not count.
	if _, err := (load{Clients: 16, Duration: 200 * time.Millisecond}).run(ctx, pid, t.opener()); err != nil {
		return nil, err
	}
	if h.Upload {
		t.Hold, t.Data = true, padding
	} else {
		t.Size = maxAnswer
	}
	open, err := openAll(ctx, h.N, t.opener())
	defer closeAll(open)
	if err != nil {
		return nil, err
	}
	before := residentBytes(pid)
	answers := make(chan error, len(open))
	read := make(chan struct{})
	for _, c := range open {
		go func() { answers <- c.(*client).callSlowly(read) }()
	}
	grown, err := h.whileHeld(ctx, upstream, pid, before)
	close(read)
	for range open {
		err = errors.Join(err, <-answers)
	}
	return sample{ofSize: float64(grown) / float64(h.N) / maxAnswer, resident: float64(before+grown) / (1 << 20)}, err
}

// whileHeld waits until all calls are in flight and memory has stopped growing,
// returns the growth, and lets the upstream answer.
func (h heldCalls) whileHeld(ctx context.Context, upstream *child, pid int, before int64) (grown int64, err error) {
	control := upstream.control()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for same := 0; same < 25; { // half a second without growth
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the calls are not in flight: %w", ctx.Err())
		case <-poll.C:
		}
		if h.Upload {
			held, err := fetch(ctx, client, control)
			if err != nil {
				return 0, err
			}
			if string(held) != fmt.Sprint(h.N) {
				continue
			}
		}
		same++
		if now := residentBytes(pid) - before; now > grown {
			grown, same = now, 0
		}
	}
	if h.Upload {
		req, err := http.NewRequestWithContext(ctx, http.MethodDelete, control, nil)
		if err != nil {
			return 0, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
	}
	return grown, nil
}

// callSlowly makes a call and begins to read its answer when read is closed. The
// kernel holds little of the answer until then.
func (c *client) callSlowly(read <-chan struct{}) error {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		tcp.SetReadBuffer(16 << 10)
	}
	id, nonce := c.next()
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	<-read
	body, _, err := c.receive(http.StatusOK)
	if err != nil {
		return err
	}
	return c.check(body, id, nonce)
}

func memoryWorkload(n int) workload {
	const down, up = "slow readers", "large requests"
	return workload{
		Name:  "memory",
		About: fmt.Sprintf("%d calls are in flight at once: with results of 1 MiB that clients are slow to read, or with requests of 1 MiB that the upstream holds. The figure is the growth of resident memory for each call, as a multiple of 1 MiB.", n),
		Paths: []path{
			heldCalls{Via: viaReverse, N: n}.path(viaReverse),
			heldCalls{Via: viaGateway, N: n}.path(down),
			heldCalls{Via: viaGateway, N: n, Upload: true}.path(up),
		},
		Ratios: []ratio{
			{Metric: ofSize, Of: down, AtMost: 2.2, Requirement: 2},
			{Metric: ofSize, Of: up, AtMost: 2.2, Requirement: 2},
		},
	}
}
