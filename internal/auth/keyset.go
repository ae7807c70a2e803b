package auth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"mcpgateway/internal/wire"
)

const (
	// freshFor is how long keys are used before they are asked for again, so that
	// a key which the issuer has withdrawn is forgotten.
	freshFor = 15 * time.Minute
	// staleFor is how long keys are used while the issuer cannot be reached.
	staleFor = 24 * time.Hour
	// fetchEvery is how often, at most and over time, keys are fetched because a
	// token names one that is not known, or because there are none yet; the first
	// few may follow one another at once.
	fetchEvery = 10 * time.Second
	fetchBurst = 4
)

// errUnreachable says that there are no keys to verify with.
var errUnreachable = errors.New("keys cannot be had")

// keySet are the keys of an issuer. They are found when they are first needed, and
// asked for again when a token names one that is not among them, at a bounded
// rate, and when they are old.
type keySet struct {
	find   func(context.Context) (string, error) // the URL of the keys
	client *http.Client
	now    func() time.Time

	renewals *rate.Limiter
	flight   singleflight.Group

	mu      sync.Mutex
	current *generation
	retry   time.Time // when old keys are asked for again
}

// generation are keys as they were found once.
type generation struct {
	keys *oidc.RemoteKeySet
	made time.Time
}

func newKeySet(find func(context.Context) (string, error), client *http.Client, now func() time.Time) *keySet {
	return &keySet{find: find, client: client, now: now, renewals: rate.NewLimiter(rate.Every(fetchEvery), fetchBurst)}
}

// verify returns the payload of a token whose signature holds. The caller has made
// sure that its algorithm is an accepted one. The error is errUnreachable where it
// cannot be known whether the signature holds.
func (k *keySet) verify(ctx context.Context, text string) ([]byte, error) {
	g, err := k.load(ctx, text)
	if err != nil {
		return nil, err
	}
	payload, err := g.keys.VerifySignature(ctx, text)
	if err != nil && ctx.Err() != nil {
		return nil, errUnreachable
	}
	return payload, err
}

// load returns keys that are not too old.
func (k *keySet) load(ctx context.Context, text string) (*generation, error) {
	k.mu.Lock()
	g, retry, now := k.current, k.retry, k.now()
	k.mu.Unlock()
	if g != nil && (now.Sub(g.made) < freshFor || now.Before(retry) && now.Sub(g.made) < staleFor) {
		return g, nil
	}
	done := k.flight.DoChan("", func() (any, error) { return k.renew(text) })
	select {
	case <-ctx.Done():
		return nil, errUnreachable
	case res := <-done:
		if res.Err == nil {
			return res.Val.(*generation), nil
		}
	}
	if g != nil && now.Sub(g.made) < staleFor {
		return g, nil
	}
	return nil, errUnreachable
}

// renew fetches the keys, by having them verify a token: whether its signature
// holds does not matter here. It outlives the request that caused it, as others
// may wait for it too.
func (k *keySet) renew(text string) (*generation, error) {
	now := k.now()
	k.mu.Lock()
	if g := k.current; g != nil && now.Sub(g.made) < freshFor { // somebody was faster
		k.mu.Unlock()
		return g, nil
	}
	k.retry = now.Add(time.Minute)
	k.mu.Unlock()
	if !k.renewals.AllowN(now, 1) {
		return nil, errUnreachable
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*fetchTimeout)
	defer cancel()
	url, err := k.find(ctx)
	if err != nil {
		return nil, err
	}
	client := *k.client
	client.Transport = &bounded{next: client.Transport, now: k.now, fetches: rate.NewLimiter(rate.Every(fetchEvery), fetchBurst)}
	g := &generation{oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &client), url), now}
	var fault *fetchError
	if _, err := g.keys.VerifySignature(ctx, text); errors.As(err, &fault) || ctx.Err() != nil {
		return nil, errUnreachable
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = g
	return g, nil
}

// fetchError says that keys were not fetched, as errors of another type say that a
// signature does not hold.
type fetchError struct{ reason string }

func (e *fetchError) Error() string { return e.reason }

// bounded is a transport for keys: they are fetched at a bounded rate and have a
// bounded size, and what is no set of keys is an error.
type bounded struct {
	next    http.RoundTripper
	now     func() time.Time
	fetches *rate.Limiter
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if !b.fetches.AllowN(b.now(), 1) {
		return nil, &fetchError{"keys were fetched a moment ago"}
	}
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, &fetchError{err.Error()}
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return resp, nil
	}
	body, err := readDocument(resp)
	if err != nil {
		return nil, &fetchError{err.Error()}
	}
	if wire.ValueOf(body).Get("keys").Kind() != '[' {
		return nil, &fetchError{"the answer is no set of keys"}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}
