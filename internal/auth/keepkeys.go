package auth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/plaintext"
)

// KeepKeys fetches the keys of all issuers now, and again whenever they are old or a fetch for a request has failed, until ctx ends.
// Thus an issuer that cannot be reached is known before the first token comes. It logs when the
// keys of an issuer cannot be fetched, and when they can again.
func (a *Authenticator) KeepKeys(ctx context.Context, log *zap.Logger) {
	var all sync.WaitGroup
	for _, i := range a.issuers {
		all.Go(func() { i.keys.keep(ctx, log.With(zap.String("issuer", i.URL))) })
	}
	all.Wait()
}

// keep is KeepKeys for one issuer.
func (k *keySet) keep(ctx context.Context, log *zap.Logger) {
	failed := false
	for {
		known, err := k.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && !failed:
			log.Warn("the keys of an issuer cannot be fetched", zap.String("error", plaintext.Clip(err.Error(), 2*maxLogged)))
		case err == nil && failed:
			log.Info("the keys of an issuer are fetched again")
		}
		failed = err != nil
		broken := k.broken
		select {
		case <-broken: // the fetch above has failed
		default:
		}
		if failed {
			broken = nil // known, and fetched again anyway
		}
		wait := freshFor
		switch {
		case known == nil:
			wait = fetchEvery
		case failed:
			wait = retryStale
		}
		select {
		case <-ctx.Done():
			return
		case <-broken: // by a token with a key ID that the issuer did not have
		case <-time.After(wait):
		}
	}
}

// refresh fetches the keys, unless that has just been done. It returns the latest ones, which are
// nil if there are none, and why the last fetch failed. Unlike those for requests, the fetch ends with ctx.
func (k *keySet) refresh(ctx context.Context) (*keyGeneration, error) {
	k.mu.Lock()
	known := k.current
	k.mu.Unlock()
	_, _, _ = k.flight.Do("", func() (any, error) { return k.fetch(ctx, known) }) // recorded as reason
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current, k.reason
}

// FetchKeys fetches the keys of all issuers, for a process that judges no tokens, and returns one sentence for each
// issuer whose keys cannot be fetched: why, and what becomes of its tokens at gateways, of which some may have keys.
func (a *Authenticator) FetchKeys(ctx context.Context) []string {
	var all sync.WaitGroup
	for _, i := range a.issuers {
		all.Go(func() { _, _ = i.keys.refresh(ctx) }) // recorded as reason
	}
	all.Wait()
	return a.sentences(func(k *keySet) string {
		if err := k.unreachable(); err != nil {
			return fmt.Sprintf("its keys cannot be fetched, so a gateway that starts now refuses its tokens with 503; "+
				"one that has fetched keys within the last %.0f hours verifies tokens with those meanwhile: %s", staleFor.Hours(), plaintext.Clip(err.Error(), 2*maxLogged))
		}
		return ""
	})
}

// Failing returns one sentence for each issuer whose keys could not be fetched the last time:
// why, and what becomes of its tokens.
func (a *Authenticator) Failing() []string { return a.sentences((*keySet).failing) }

// sentences returns what of says about the keys of each issuer, without "".
func (a *Authenticator) sentences(of func(*keySet) string) []string {
	var all []string
	for _, i := range a.issuers {
		if text := of(i.keys); text != "" {
			all = append(all, fmt.Sprintf("issuer %s: %s", i.URL, text))
		}
	}
	slices.Sort(all)
	return all
}

func (k *keySet) failing() string {
	k.mu.Lock()
	g, reason := k.current, k.reason
	k.mu.Unlock()
	if reason == nil {
		return ""
	}
	why := plaintext.Clip(reason.Error(), 2*maxLogged)
	if g == nil || k.now().Sub(g.made) >= staleFor {
		return fmt.Sprintf("its keys cannot be fetched, so its tokens are refused with 503: %s", why)
	}
	return fmt.Sprintf("its keys cannot be fetched, so its tokens are verified with those of %s, until %s: %v",
		logTime(g.made), logTime(g.made.Add(staleFor)), why)
}
