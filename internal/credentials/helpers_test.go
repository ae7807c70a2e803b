package credentials

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// serve starts a server on loopback, and returns its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// protected starts a server that requires tokens of an authorization server, and returns
// the URL of its endpoint.
func protected(t *testing.T, as *gatewaytest.AuthServer) string {
	t.Helper()
	var self string
	self = serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mcp":
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+self+`/its-metadata", scope="read"`)
			w.WriteHeader(http.StatusUnauthorized)
		case "/its-metadata":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"resource":"` + self + `/mcp","authorization_servers":["` + as.URL + `"],"scopes_supported":["all"]}`))
		default:
			http.NotFound(w, r)
		}
	})
	return self + "/mcp"
}

// browser returns a client that follows redirects and has its own cookies.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: tr}
}

// open opens a URL, and returns the status and the text of the final page.
func open(t *testing.T, b *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := b.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// step opens a URL, and returns the URL that it redirects to.
func step(t *testing.T, b *http.Client, url string) string {
	t.Helper()
	one := *b
	one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := one.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s leads nowhere: %d %s", url, resp.StatusCode, text)
	}
	return to.String()
}

// dirOf returns the folder of a store.
func dirOf(s *Store) string { return s.values.(*folder).dir }

// eachStore runs a test for each way to keep grants. open returns what one process has; all have the same grants.
func eachStore(t *testing.T, test func(t *testing.T, open func() *Store)) {
	t.Run("on disk", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		test(t, func() *Store { return NewStore(dir) })
	})
	t.Run("in memory", func(t *testing.T) {
		s := NewStore("")
		test(t, func() *Store { return s })
	})
	t.Run("shared", func(t *testing.T) {
		s := newAwayStore(t)
		test(t, func() *Store { return OpenStore(StoreOptions{Shared: s}) })
	})
}

// awayStore is a sealed store that may be away. It counts what it refuses.
type awayStore struct {
	store.Store
	kept    *storetest.Memory
	away    atomic.Bool
	refused atomic.Int64
	// fail makes one operation on keys of a kind fail, if it is not nil.
	fail func(kind string) bool
}

const sealKey = "0123456789abcdef0123456789abcdef"

func newAwayStore(t *testing.T) *awayStore {
	s := &awayStore{kept: new(storetest.Memory)}
	s.Store = s.sealed(sealKey)
	t.Cleanup(func() {
		if n := s.refused.Load(); n > 0 && !strings.Contains(t.Name(), "Refuse") {
			t.Errorf("%d values were refused", n)
		}
	})
	return s
}

// sealed returns the same store with another key.
func (s *awayStore) sealed(key string) store.Store {
	return store.Sealed(s.kept, [][]byte{[]byte(key)}, func(string, error) { s.refused.Add(1) })
}

func (s *awayStore) err(kind string) error {
	if s.away.Load() || s.fail != nil && s.fail(kind) {
		return store.ErrUnavailable
	}
	return nil
}

func (s *awayStore) Get(ctx context.Context, keys ...store.Key) ([][]byte, error) {
	if err := s.err(keys[0].Kind); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, keys...)
}

func (s *awayStore) Put(ctx context.Context, key store.Key, value []byte, ttl time.Duration) error {
	if err := s.err(key.Kind); err != nil {
		return err
	}
	return s.Store.Put(ctx, key, value, ttl)
}

func (s *awayStore) PutNew(ctx context.Context, key store.Key, value []byte, ttl time.Duration) (bool, error) {
	if err := s.err(key.Kind); err != nil {
		return false, err
	}
	return s.Store.PutNew(ctx, key, value, ttl)
}

func (s *awayStore) Take(ctx context.Context, key store.Key) ([]byte, error) {
	if err := s.err(key.Kind); err != nil {
		return nil, err
	}
	return s.Store.Take(ctx, key)
}

func (s *awayStore) Delete(ctx context.Context, keys ...store.Key) error {
	if err := s.err(keys[0].Kind); err != nil {
		return err
	}
	return s.Store.Delete(ctx, keys...)
}

func (s *awayStore) PutField(ctx context.Context, key store.Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	if err := s.err(key.Kind); err != nil {
		return false, err
	}
	return s.Store.PutField(ctx, key, field, value, max, ttl)
}

func (s *awayStore) Fields(ctx context.Context, key store.Key) (map[string][]byte, error) {
	if err := s.err(key.Kind); err != nil {
		return nil, err
	}
	return s.Store.Fields(ctx, key)
}
