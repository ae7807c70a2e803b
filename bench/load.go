package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// caller makes calls one after the other and checks their answers.
type caller interface {
	call() error
	close()
}

// opener opens the caller with this number.
type opener func(ctx context.Context, number int) (caller, error)

// opener returns the opener of clients of a target.
func (t *target) opener() opener {
	return func(ctx context.Context, number int) (caller, error) {
		c, err := openClient(ctx, t, number)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

// load is the load on each path in a turn.
type load struct {
	Clients  int
	Warmup   time.Duration // before the counted part
	Duration time.Duration // of the counted part; it ends with the last call that began in it
	// Every is the time from the begin of a call of a client to that of its next one. It is 0 for calls
	// one after the other.
	Every time.Duration
}

// run puts the load on the process pid and measures it. The first error of a
// caller ends the run; a wrong answer is an error.
func (l load) run(ctx context.Context, pid int, open opener) (sample, error) {
	ctx, stopTimer := context.WithTimeoutCause(ctx, l.Warmup+l.Duration+6*ioTimeout,
		errors.New("the turn did not end in time"))
	defer stopTimer()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	callers, err := openAll(ctx, l.Clients, open)
	defer closeAll(callers)
	if err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	used := cpuTime(pid) // before the counted part
	var (
		wg        sync.WaitGroup
		latencies = make([][]time.Duration, l.Clients)
		begin     = time.Now().Add(l.Warmup)
		end       = begin.Add(l.Duration)
	)
	for i, c := range callers {
		wg.Go(func() {
			var err error
			if latencies[i], err = repeat(ctx, c, begin, end, l.Every); err != nil {
				fail(err)
			}
		})
	}
	if l.Warmup > 0 {
		wg.Go(func() {
			select {
			case <-time.After(time.Until(begin)):
				used = cpuTime(pid)
			case <-ctx.Done():
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	used = cpuTime(pid) - used
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return sample{
		perSecond: float64(len(all)) / elapsed.Seconds(),
		p50:       microseconds(quantile(all, 0.50)),
		p99:       microseconds(quantile(all, 0.99)),
		cpu:       microseconds(used) / float64(len(all)),
		resident:  float64(residentBytes(pid)) / (1 << 20),
	}, nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// openAll opens n callers, some at a time. After an error it returns those that
// are open.
func openAll(ctx context.Context, n int, open opener) (callers []caller, err error) {
	all := make([]caller, n)
	err = inParallel(n, openAtOnce, func(i int) (err error) {
		all[i], err = open(ctx, i)
		return err
	})
	return slices.DeleteFunc(all, func(c caller) bool { return c == nil }), err
}

func closeAll(callers []caller) {
	inParallel(len(callers), openAtOnce, func(i int) error {
		callers[i].close()
		return nil
	})
}

// openAtOnce is how many connections or sessions are opened or closed at a time.
const openAtOnce = 16

// inParallel calls do for 0 to n-1, so many at a time. It returns the first
// error; calls that have not begun by then are left out.
func inParallel(n, atOnce int, do func(i int) error) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		next  int
		first error
	)
	take := func(err error) (i int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
		if first != nil || next == n {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(n, atOnce) {
		wg.Go(func() {
			var err error
			for i, ok := take(nil); ok; i, ok = take(err) {
				err = do(i)
			}
		})
	}
	wg.Wait()
	return first
}

// repeat makes calls until end, and at least one after begin. It returns the
// durations of the calls that began after begin.
func repeat(ctx context.Context, c caller, begin, end time.Time, every time.Duration) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, 1<<14)
	for started := time.Now(); started.Before(end) || len(latencies) == 0; {
		if err := c.call(); err != nil {
			return nil, err
		}
		ended := time.Now()
		if !started.Before(begin) {
			latencies = append(latencies, ended.Sub(started))
		}
		if next := started.Add(every); next.After(ended) {
			select {
			case <-time.After(next.Sub(ended)):
			case <-ctx.Done():
				return latencies, nil // another client has failed
			}
			ended = time.Now()
		}
		started = ended
	}
	return latencies, nil
}
