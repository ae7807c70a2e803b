package embeddings

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/search"
)

// meanings is the direction of the vector of a text by what the text contains.
var meanings = map[string][]float32{"payment": {1, 0, 0}, "money": {0.9, 0.1, 0}, "weather": {0, 1, 0}, "rain": {0.1, 0.9, 0}}

// fakeServer answers as an OpenAI-compatible server does.
type fakeServer struct {
	*httptest.Server
	asked  atomic.Int64 // texts
	answer atomic.Pointer[func(w http.ResponseWriter)]
}

func newFakeServer(t *testing.T) *fakeServer {
	f := &fakeServer{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model string
			Input []string
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer s3cret" || body.Model != "small" {
			t.Errorf("asked %s of model %q with %v", r.URL, body.Model, err)
		}
		f.asked.Add(int64(len(body.Input)))
		if answer := f.answer.Load(); answer != nil {
			(*answer)(w)
			return
		}
		var data []string
		for i, text := range body.Input {
			v := []float32{0, 0, 1}
			for word, meaning := range meanings {
				if strings.Contains(text, word) {
					v = meaning
				}
			}
			raw, _ := json.Marshal(v)
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":%s}`, i, raw))
		}
		_, _ = io.WriteString(w, `{"data":[`+strings.Join(data, ",")+`]}`)
	}))
	t.Cleanup(f.Close)
	t.Cleanup(f.Client().CloseIdleConnections)
	return f
}

func (f *fakeServer) fails(status int, body string) {
	answer := func(w http.ResponseWriter) { w.WriteHeader(status); _, _ = io.WriteString(w, body) }
	f.answer.Store(&answer)
}

// start runs a store over two tools until the test ends.
func (f *fakeServer) start(t *testing.T, file string) (*Store, *search.Index, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	s := New(Server{URL: f.URL + "/v1/", Model: "small", Key: "s3cret", HTTP: f.Client()}, file, zap.New(core))
	tools := map[*search.Doc]func() string{}
	var docs []*search.Doc
	for _, t := range []search.Tool{{Name: "charge", Description: "Takes a payment"}, {Name: "forecast", Description: "Tells the weather"}} {
		d := search.Analyze(t)
		docs, tools[d] = append(docs, d), t.Text
	}
	s.Follow(tools)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s, search.New(docs), logs
}

func (s *Store) ready() bool { return len(*s.vectors.Load()) == 2 }

func TestNearestRanksByMeaning(t *testing.T) {
	f := newFakeServer(t)
	s, x, _ := f.start(t, "")
	polltest.Until(t, "the tools have vectors", s.ready)
	for query, want := range map[string]int{"send money": 0, "will there be rain?": 1} {
		places := s.Nearest(t.Context(), x, query)
		if len(places) != 2 || places[0] != want {
			t.Errorf("%q: %v, want %d first", query, places, want)
		}
		if p := x.Search(search.Query{Text: query, Nearest: places}); p.Hits[0].Index != want {
			t.Errorf("%q finds %s", query, p.Hits[0].Name())
		}
	}
	// An index ranks its own documents only.
	if places := s.Nearest(t.Context(), search.New([]*search.Doc{x.Doc(1)}), "money"); len(places) != 1 || places[0] != 0 {
		t.Errorf("an index of the second tool: %v", places)
	}
	s.Follow(nil)
	if places := s.Nearest(t.Context(), x, "money"); places != nil {
		t.Errorf("documents that are not followed any more: %v", places)
	}
}

func TestVectorsAreMadeOnce(t *testing.T) {
	f := newFakeServer(t)
	file := filepath.Join(t.TempDir(), "embeddings")
	s, _, _ := f.start(t, file)
	polltest.Until(t, "the vectors are kept", func() bool { _, err := os.Stat(file); return s.ready() && err == nil })
	again, _, _ := f.start(t, file)
	if !again.ready() {
		t.Error("vectors are not read again")
	}
	if n := f.asked.Load(); n != 2 {
		t.Errorf("%d texts were sent, want 2", n)
	}
	// Tools that are away for a while keep their vectors, though others come meanwhile.
	news := search.Tool{Name: "news"}
	again.Follow(map[*search.Doc]func() string{search.Analyze(news): news.Text})
	polltest.Until(t, "the new tool has a vector", func() bool { return len(*again.vectors.Load()) == 1 })
	polltest.Until(t, "three vectors are kept", func() bool { kept, err := read(file); return err == nil && len(kept) == 3 })
	// A file whose end is missing keeps what is whole.
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if vectors, err := read(file); err != nil || len(vectors) != 2 {
		t.Errorf("%d vectors of a torn file, %v", len(vectors), err)
	}
	// Another model has vectors of its own.
	other := Server{URL: f.URL + "/v1", Model: "large"}
	if other.keyOf("text") == (&Server{URL: f.URL + "/v1/", Model: "small"}).keyOf("text") {
		t.Error("two models share a vector")
	}
}

func TestAServerThatFailsIsNotAwaited(t *testing.T) {
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"an error":           {http.StatusInternalServerError, "no"},
		"no JSON":            {http.StatusOK, "<html>"},
		"too few vectors":    {http.StatusOK, `{"data":[]}`},
		"no direction":       {http.StatusOK, `{"data":[{"index":0,"embedding":[0,0,0]}]}`},
		"no such text":       {http.StatusOK, `{"data":[{"index":7,"embedding":[1,0,0]}]}`},
		"twice":              {http.StatusOK, `{"data":[{"index":0,"embedding":[1,0,0]},{"index":0,"embedding":[1,0,0]}]}`},
		"an empty vector":    {http.StatusOK, `{"data":[{"index":0,"embedding":[]}]}`},
		"too large a number": {http.StatusOK, `{"data":[{"index":0,"embedding":[1e400]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			s, x, logs := f.start(t, "")
			polltest.Until(t, "the tools have vectors", s.ready)
			f.fails(answer.status, answer.body)
			before := f.asked.Load()
			for range 3 {
				if places := s.Nearest(t.Context(), x, "money"); places != nil {
					t.Errorf("places %v", places)
				}
			}
			if n := f.asked.Load() - before; n != 1 {
				t.Errorf("a server that fails is asked %d times", n)
			}
			for _, e := range logs.All() {
				if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line, "s3cret") || strings.Contains(line, "money") {
					t.Errorf("the log has the key or the query: %s", line)
				}
			}
			if logs.FilterMessageSnippet("cannot be made in time").Len() != 1 {
				t.Errorf("log: %v", logs.All())
			}
		})
	}
}

// Tools get their vectors as soon as the server answers again.
func TestToolsAreTriedAgain(t *testing.T) {
	f := newFakeServer(t)
	f.fails(http.StatusServiceUnavailable, "")
	s, x, logs := f.start(t, "")
	polltest.Until(t, "a first attempt fails", func() bool { return logs.FilterMessageSnippet("embeddings of tools cannot be made").Len() > 0 })
	if places := s.Nearest(t.Context(), x, "money"); places != nil {
		t.Errorf("places %v without vectors", places)
	}
	f.answer.Store(nil)
	polltest.Until(t, "the tools have vectors", s.ready)
}
