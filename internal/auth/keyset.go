package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

const (
	// freshFor is how long keys are used before they are fetched again, so that a key
	// which the issuer has withdrawn is forgotten.
	freshFor = 15 * time.Minute
	// staleFor is how long keys are used while the issuer cannot be reached, and
	// retryStale how often they are fetched again meanwhile.
	staleFor   = 24 * time.Hour
	retryStale = time.Minute
	// fetchEvery and fetchBurst bound the rate of fetches from one issuer.
	fetchEvery = 10 * time.Second
	fetchBurst = 4
)

var (
	// errUnreachable says that a signature cannot be verified, since the keys cannot
	// be fetched.
	errUnreachable = errors.New("the keys of the issuer cannot be fetched")
	// errBadSignature says that no key of the issuer verifies a signature.
	errBadSignature = errors.New("the signature is invalid")
)

// keySet holds the signing keys of an issuer. It fetches them when they are first
// needed, when they are old, and, at a bounded rate, when they do not verify a token:
// the issuer may have published new keys.
type keySet struct {
	find   func(context.Context) (string, error) // the URL of the keys
	client *http.Client
	now    func() time.Time
	up     func(bool) // learns whether each fetch has succeeded

	fetches *rate.Limiter
	flight  singleflight.Group

	mu      sync.Mutex
	current *keyGeneration // nil before the first fetch
	failed  bool           // the last fetch failed
	reason  error          // why it failed
	retry   time.Time      // when stale keys are fetched again

	broken chan struct{} // capacity 1: a fetch has failed
}

// keyGeneration is the result of one fetch. It is immutable.
type keyGeneration struct {
	url  string
	keys []jose.JSONWebKey
	made time.Time
}

func newKeySet(find func(context.Context) (string, error), client *http.Client, now func() time.Time, up func(bool)) *keySet {
	return &keySet{find: find, client: client, now: now, up: up, fetches: rate.NewLimiter(rate.Every(fetchEvery), fetchBurst), broken: make(chan struct{}, 1)}
}

// verify returns the payload of a token whose signature is valid. The error is
// errUnreachable while the keys that could verify the token cannot be fetched.
func (k *keySet) verify(ctx context.Context, text string, algorithms []jose.SignatureAlgorithm) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return nil, errBadSignature
	}
	g, err := k.load(ctx)
	if err != nil {
		return nil, err
	}
	if payload, ok := g.verify(jws); ok {
		return payload, nil
	}
	newer, err := k.wait(ctx, g)
	if err != nil {
		return nil, err
	}
	if payload, ok := newer.verify(jws); ok {
		return payload, nil
	}
	return nil, errBadSignature
}

// verify reports whether one of the keys with the token's key ID, or any key for a
// token without one, verifies the signature.
func (g *keyGeneration) verify(jws *jose.JSONWebSignature) ([]byte, bool) {
	id := jws.Signatures[0].Header.KeyID
	for i := range g.keys {
		if id != "" && g.keys[i].KeyID != id {
			continue
		}
		if payload, err := jws.Verify(&g.keys[i]); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// load returns the keys, and fetches them first if they are missing or old.
func (k *keySet) load(ctx context.Context) (*keyGeneration, error) {
	k.mu.Lock()
	g, retry := k.current, k.retry
	k.mu.Unlock()
	if g == nil {
		return k.wait(ctx, nil)
	}
	now := k.now()
	age := now.Sub(g.made)
	usable := age < staleFor
	if age < freshFor || usable && now.Before(retry) {
		return g, nil
	}
	newer, err := k.wait(ctx, g)
	if err != nil && usable && ctx.Err() == nil {
		return g, nil
	}
	return newer, err
}

// wait returns what fetch returns, or errUnreachable when ctx ends first: the fetch
// goes on, since other requests may wait for it too.
func (k *keySet) wait(ctx context.Context, known *keyGeneration) (*keyGeneration, error) {
	done := k.flight.DoChan("", func() (any, error) { return k.fetch(context.Background(), known) })
	select {
	case <-ctx.Done():
		return nil, errUnreachable
	case res := <-done:
		if res.Err != nil {
			return nil, errUnreachable
		}
		return res.Val.(*keyGeneration), nil
	}
}

// fetch replaces the known generation. It returns the current generation without a
// request if that is another one already, or if the limit of the rate is reached and
// the last fetch succeeded.
func (k *keySet) fetch(ctx context.Context, known *keyGeneration) (*keyGeneration, error) {
	now := k.now()
	k.mu.Lock()
	if k.current != known {
		defer k.mu.Unlock()
		return k.current, nil
	}
	if !k.fetches.AllowN(now, 1) {
		defer k.mu.Unlock()
		if k.failed || known == nil {
			return nil, errUnreachable
		}
		return known, nil
	}
	k.failed, k.retry = true, now.Add(retryStale)
	k.mu.Unlock()

	g, err := k.request(ctx, known, now)
	k.up(err == nil)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reason = err; err != nil {
		select {
		case k.broken <- struct{}{}:
		default:
		}
		return nil, err
	}
	k.current, k.failed = g, false
	return g, nil
}

// lacks returns the text for operators if none of the keys has the key ID of a token, "" if one
// has or if the token names none.
func (k *keySet) lacks(id wire.Value) string {
	k.mu.Lock()
	g := k.current
	k.mu.Unlock()
	if g == nil || !id.Exists() || id.Str() == "" {
		return ""
	}
	var ids []string
	for i := range g.keys {
		switch known := g.keys[i].KeyID; {
		case known == id.Str():
			return ""
		case known != "":
			ids = append(ids, known)
		}
	}
	if len(ids) == 0 {
		return fmt.Sprintf("the issuer has no key %s; none of its keys has an id", quotedID(id.Str()))
	}
	return fmt.Sprintf("the issuer has no key %s; it has: %s", quotedID(id.Str()), plaintext.Line(joined(ids), maxLogged))
}

// quotedID quotes a key ID of a client for people.
func quotedID(id string) string { return strconv.Quote(plaintext.Line(id, maxLoggedID)) }

// unreachable returns why the keys could not be fetched last time, nil if they could.
func (k *keySet) unreachable() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reason
}

// request fetches the keys.
func (k *keySet) request(ctx context.Context, known *keyGeneration, now time.Time) (*keyGeneration, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*fetchTimeout)
	defer cancel()
	g := &keyGeneration{made: now}
	var err error
	if known != nil && now.Sub(known.made) < freshFor {
		g.url = known.url
	} else if g.url, err = k.find(ctx); err != nil {
		return nil, err
	}
	body, err := fetchDocument(ctx, k.client, g.url)
	if err != nil {
		return nil, err
	}
	g.keys, err = parseKeys(body)
	return g, err
}

// parseKeys returns the public keys of a JSON Web Key Set. It ignores keys that it
// cannot use, as RFC 7517, section 5, recommends.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	list := wire.ValueOf(body).Get("keys")
	if list.Kind() != '[' {
		return nil, errors.New("the answer is not a JSON Web Key Set")
	}
	var keys []jose.JSONWebKey
	n := 0
	for e := range list.Elements() {
		n++
		var key jose.JSONWebKey
		if err := json.Unmarshal(e.Raw(), &key); err == nil && key.IsPublic() {
			keys = append(keys, key)
		}
	}
	if n > 0 && len(keys) == 0 {
		return nil, errors.New("the JSON Web Key Set contains no usable public key")
	}
	return keys, nil
}
