package auth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// forKeys returns an Authenticator with one issuer, whose keys are fetched by f.
func forKeys(t *testing.T, f roundTrip) *Authenticator {
	return newAuth(t, Options{
		Client:  &http.Client{Transport: f},
		Issuers: []Issuer{{URL: "https://idp.example.com", Audiences: []string{audience}, Keys: "https://idp.example.com/keys"}},
	})
}

// TestKeepKeys checks that an issuer whose keys cannot be fetched is known without a token, and
// told once for each time that it goes away.
func TestKeepKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		a := forKeys(t, func(*http.Request) (*http.Response, error) {
			if down.Load() {
				return nil, errors.New("connection refused")
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"keys":[]}`))}, nil
		})
		core, lines := observer.New(zapcore.InfoLevel)
		ctx, end := context.WithCancel(t.Context())
		var ended bool
		go func() { a.KeepKeys(ctx, zap.New(core)); ended = true }()

		check := func(state, failing string, up float64, logged ...string) {
			t.Helper()
			synctest.Wait()
			all := strings.Join(a.Failing(), "\n")
			if all != failing && (failing == "" || !strings.Contains(all, failing)) {
				t.Errorf("%s: failing is %q, want %q", state, all, failing)
			}
			if got := testutil.ToFloat64(a.metrics.issuers.WithLabelValues("https://idp.example.com")); got != up {
				t.Errorf("%s: the gauge is %v, want %v", state, got, up)
			}
			var got []string
			for _, l := range lines.TakeAll() {
				got = append(got, l.Level.String()+": "+l.Message)
			}
			if strings.Join(got, "\n") != strings.Join(logged, "\n") {
				t.Errorf("%s: logged %q, want %q", state, got, logged)
			}
		}
		check("at the start", "issuer https://idp.example.com: its keys cannot be fetched, so its tokens are refused with 503: ", 0,
			"warn: the keys of an issuer cannot be fetched")
		time.Sleep(3 * fetchEvery)
		check("still away", "connection refused", 0)
		down.Store(false)
		time.Sleep(fetchEvery)
		check("back", "", 1, "info: the keys of an issuer are fetched again")
		down.Store(true)
		keys := a.issuers["https://idp.example.com"].keys
		if _, err := keys.wait(t.Context(), keys.current); err == nil { // as for a token with an unknown key ID
			t.Error("keys of an issuer that is away")
		}
		check("away for a request", "its tokens are verified with those of ", 0, "warn: the keys of an issuer cannot be fetched")
		down.Store(false)
		time.Sleep(retryStale)
		check("back for requests", "", 1, "info: the keys of an issuer are fetched again")
		down.Store(true)
		time.Sleep(freshFor)
		check("away again", "its tokens are verified with those of ", 0, "warn: the keys of an issuer cannot be fetched")
		time.Sleep(staleFor)
		check("away for long", "refused with 503", 0)
		end()
		if synctest.Wait(); !ended {
			t.Error("KeepKeys goes on")
		}
	})
}

// TestKeepKeysEnds checks that a fetch from an issuer that does not answer ends with the context.
func TestKeepKeysEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := forKeys(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		start := time.Now()
		a.KeepKeys(ctx, zap.NewNop())
		if took := time.Since(start); took != time.Second {
			t.Errorf("KeepKeys took %v", took)
		}
	})
}
