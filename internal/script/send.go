package script

import (
	"context"
	"fmt"
	"sync"

	"mcpgateway/internal/wire"
)

// request is one call that a script asks for.
type request struct {
	tool      string
	arguments wire.Raw
}

// outcome is the end of a call: a result, or the error of the host. The memory of the result is
// charged.
type outcome struct {
	result wire.Raw
	err    error
}

// sending is the shared state of the calls of one parallel. The run waits for all of them, so
// the lock guards its memory meanwhile.
type sending struct {
	run     *Run
	mu      sync.Mutex
	ended   *sync.Cond // a call
	pending int        // calls
	err     error      // that ends the script
}

// send runs calls at the same time, as many as the limit and the memory allow, and returns their
// outcomes. If the results need more memory than is left, no further call begins, and the error
// ends the script.
func (r *Run) send(requests []request) ([]outcome, error) {
	if err := r.count(len(requests)); err != nil {
		return nil, err
	}
	r.wait()
	defer r.compute()
	s := &sending{run: r}
	s.ended = sync.NewCond(&s.mu)
	outcomes := make([]outcome, len(requests))
	if len(requests) == 1 {
		outcomes[0] = s.one(requests[0])
	} else {
		var group sync.WaitGroup
		next := make(chan int)
		for range min(r.limits.Parallel, len(requests)) {
			group.Go(func() {
				for i := range next {
					outcomes[i] = s.one(requests[i])
				}
			})
		}
		for i := range requests {
			next <- i
		}
		close(next)
		group.Wait()
	}
	if cause := context.Cause(r.ctx); cause != nil {
		return nil, cause
	}
	return outcomes, s.err
}

// one makes one call.
func (s *sending) one(q request) outcome {
	if err := s.begin(); err != nil {
		return outcome{err: err}
	}
	raw, err := s.run.opts.Host.Call(s.run.ctx, q.tool, q.arguments)
	return s.end(q.tool, raw, err)
}

// begin waits until there is room for another result, as long as the longest one so far. A
// single call never waits.
func (s *sending) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.pending > 0 && s.err == nil && int64(s.pending+1)*s.run.longest > s.run.memory {
		s.ended.Wait()
	}
	if s.err != nil {
		return s.err
	}
	if err := s.run.ctx.Err(); err != nil {
		return err
	}
	s.pending++
	return nil
}

// end charges the result of a call, or drops it.
func (s *sending) end(tool string, raw wire.Raw, err error) outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	defer s.ended.Broadcast()
	size := int64(len(raw))
	s.run.longest = max(s.run.longest, size)
	if s.err == nil {
		if problem := s.run.alloc(size); problem != nil {
			s.err = fmt.Errorf("no memory is left for the result of %s, of %d bytes: %w", tool, size, problem)
		}
	}
	if s.err != nil {
		return outcome{err: s.err}
	}
	return outcome{raw, err}
}
