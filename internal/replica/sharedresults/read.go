package sharedresults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"mcpgateway/internal/results"
	"mcpgateway/internal/store"
)

// Get implements [results.Store].
func (s *Store) Get(ctx context.Context, owner results.Owner, id string) (*results.Document, error) {
	d, err := s.o.Local.Get(ctx, owner, id)
	if !errors.Is(err, results.ErrUnknown) || !isID(id) {
		return d, err
	}
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if d, err := s.o.Local.Get(ctx, owner, id); err == nil { // another request has read it meanwhile
		return d, nil
	}
	d, err = s.read(ctx, owner, id)
	if errors.Is(err, results.ErrUnknown) && s.o.Troubled() {
		err = errTroubled
	}
	return d, err
}

// errTroubled is for a result that the store may lack because of an outage.
var errTroubled = fmt.Errorf("%w: it did not work just now, and may not have the result yet", store.ErrUnavailable)

// read reads a result from the store, and keeps it here too.
func (s *Store) read(ctx context.Context, owner results.Owner, id string) (*results.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	part, err := s.value(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	h, part, ok := parseFirst(part)
	if limit := s.limitsNow().PerOwner; !ok || !h.isFor(owner) || int64(h.Size) > 2*limit {
		return nil, results.ErrUnknown
	}
	encoded := make([]byte, 0, h.Size)
	encoded = append(encoded, part...)
	for n := 1; len(encoded) < h.Size; n++ {
		if part, err = s.value(ctx, id, n); err != nil {
			return nil, err
		}
		if len(part) == 0 || len(part) > h.Size-len(encoded) {
			return nil, results.ErrUnknown
		}
		encoded = append(encoded, part...)
	}
	d, ok := h.decode(encoded)
	if !ok {
		return nil, results.ErrUnknown
	}
	switch err := s.o.Local.PutAs(owner, id, d, time.Unix(h.Expires, 0)); {
	case errors.Is(err, results.ErrUnread):
		return nil, results.ErrUnknown
	case err != nil && !errors.Is(err, results.ErrTooLarge): // what is too large is read again each time
		return nil, err
	}
	return d, nil
}

// value returns a value of a result. The error is ErrUnknown if it is not there.
func (s *Store) value(ctx context.Context, id string, n int) ([]byte, error) {
	values, err := s.o.Values.Get(ctx, valueKey(id, n))
	if err != nil {
		return nil, fmt.Errorf("it is not kept here, and %w", err)
	}
	if values[0] == nil {
		return nil, results.ErrUnknown
	}
	return values[0], nil
}

// SetLimits changes the limits. The limit of a principal is applied to the store with its next result.
func (s *Store) SetLimits(l results.Limits) {
	s.mu.Lock()
	s.limits = l
	s.mu.Unlock()
	s.o.Local.SetLimits(l)
}

// Retain removes the results of all profiles but those that keep reports from this replica, and neither
// keeps nor reads those of the others: see [results.Memory.Retain].
func (s *Store) Retain(keep func(profile string) bool) { s.o.Local.Retain(keep) }

// Close forgets what this replica keeps. The store keeps its own until it expires.
func (s *Store) Close() { s.o.Local.Close() }

// Run puts results into the store that it did not take when they were kept, until ctx ends.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.shareRest(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// shareRest puts results into the store until it fails.
func (s *Store) shareRest(ctx context.Context) {
	s.mu.Lock()
	rest := maps.Clone(s.unshared)
	limits := s.limits
	s.mu.Unlock()
	away := false
	for id, owner := range rest {
		d, expires := s.o.Local.Held(owner, id)
		if d != nil {
			if away {
				continue
			}
			bounded, cancel := context.WithTimeout(ctx, putTime)
			_, err := s.share(bounded, owner, id, d, expires, limits, true)
			cancel()
			if away = err != nil; away {
				continue
			}
		}
		s.mu.Lock()
		delete(s.unshared, id)
		s.o.Metrics.unshared.Set(float64(len(s.unshared)))
		s.mu.Unlock()
	}
}
