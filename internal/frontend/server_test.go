package frontend

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/wire"
)

func TestNewNeedsHandlerAndInfo(t *testing.T) {
	for name, o := range map[string]Options{
		"no handler":        {Info: wire.Raw(`{}`)},
		"no info":           {Handler: newScriptHandler()},
		"info is no object": {Handler: newScriptHandler(), Info: wire.Raw(`[]`)},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("New accepted it")
				}
			}()
			New(o)
		})
	}
}

// do serves one request.
func do(s *Server, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func request(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway.test/mcp", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

const pingBody = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// Browsers must not guess the content type of a response.
func TestAnswersAreNotSniffed(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
	for name, r := range map[string]*http.Request{
		"answer":  request(t, strings.NewReader(pingBody)),
		"refusal": request(t, strings.NewReader(`{`)),
	} {
		if got := do(s, r).Header().Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options is %q, want nosniff", name, got)
		}
	}
}

type challenged struct{}

func (challenged) Error() string     { return "the key is secret-key" }
func (challenged) Challenge() string { return `Bearer error="invalid_token"` }
func (challenged) Status() int       { return http.StatusForbidden }
func (challenged) Public() string    { return "a better key is due" }
func (challenged) Log() (zapcore.Level, string, zap.Field) {
	return zap.WarnLevel, "wrong", zap.String("key", "ci")
}

// An authentication error may quote the credentials, so it is neither sent nor logged.
func TestChallenge(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core),
		Authenticate: func(*http.Request) (*call.Principal, error) { return nil, challenged{} }})
	w := do(s, request(t, strings.NewReader(pingBody)))
	if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusForbidden || got != `Bearer error="invalid_token"` || !strings.Contains(w.Body.String(), `"a better key is due"`) {
		t.Errorf("status %d, WWW-Authenticate %q", w.Code, got)
	}
	line := logs.FilterMessage("authentication failed").FilterField(zap.String("key", "ci")).FilterField(zap.String("kind", refusedCredentials))
	if logs.Len() != 1 || line.FilterLevelExact(zap.WarnLevel).Len() != 1 {
		t.Errorf("the refusal is not one line: %v", logs.All())
	}
	if strings.Contains(w.Body.String(), "secret") || strings.Contains(logText(t, logs), "secret") {
		t.Errorf("the secret came out: %s %s", w.Body, logText(t, logs))
	}
}

func logText(t *testing.T, logs *observer.ObservedLogs) string {
	t.Helper()
	var out strings.Builder
	for _, e := range logs.All() {
		text, err := json.Marshal(e.ContextMap())
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(e.Message + " " + string(text) + "\n")
	}
	return out.String()
}

// No part of a body is logged, and headers are logged only in a form that cannot forge
// lines.
func TestLogHoldsNoBody(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core)})
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"secret":1,"secret":2}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_META":"secret"}}`,
		`secret`,
	} {
		r := request(t, strings.NewReader(body))
		r.Header.Set(wire.HeaderMethod, "evil\nline "+strings.Repeat("x", 1000))
		if w := do(s, r); w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", body, w.Code)
		}
	}
	text := logText(t, logs)
	if logs.Len() != 3 || strings.Contains(text, "secret") || strings.Contains(text, `\n`) || len(text) > 1500 {
		t.Errorf("%d entries: %s", logs.Len(), text)
	}
}

// A panic in the front end, or in a function of Options, ends only one request.
func TestPanicOutsideHandler(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core),
		HeaderParams: func(*call.Principal, *call.Client, string) []wire.HeaderParam { panic("broken") }})
	r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood"%s}}`, wire.EraModern)
	w := do(s, r)
	want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`
	if w.Code != http.StatusInternalServerError || withoutRequestIDs(t, w.Body.String()) != want {
		t.Errorf("status %d, body %s", w.Code, w.Body)
	}
	if !strings.Contains(logText(t, logs), "TestPanicOutsideHandler") {
		t.Errorf("the log lacks the stack: %s", logText(t, logs))
	}
}

// A panic of the handler is logged with its stack.
func TestPanicOfHandler(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core)})
	w := do(s, request(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"panic"}}`)))
	if want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`; withoutRequestIDs(t, w.Body.String()) != want {
		t.Errorf("body %s, want %s", w.Body, want)
	}
	if text := logText(t, logs); !strings.Contains(text, "the handler is broken") || !strings.Contains(text, "(*scriptHandler).tool") {
		t.Errorf("the log lacks the panic or its stack: %s", text)
	}
}

// A large answer is complete in both forms.
func TestLargeAnswer(t *testing.T) {
	large := `"` + strings.Repeat("x", 3*writePiece+5) + `"`
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
	for accept, want := range map[string]string{
		"application/json":  `{"jsonrpc":"2.0","id":1,"result":{"content":[],"echo":` + large + `}}`,
		"text/event-stream": `data: {"jsonrpc":"2.0","id":1,"result":{"content":[],"echo":` + large + "}}\n\n",
	} {
		r := request(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":`+large+`}}`))
		r.Header.Set("Accept", accept)
		if w := do(s, r); w.Body.String() != want {
			t.Errorf("%s: %d bytes, want %d", accept, w.Body.Len(), len(want))
		}
	}
}

// failingBody is a body that breaks off.
type failingBody struct{ err error }

func (f failingBody) Read(b []byte) (int, error) { return copy(b, "{"), f.err }

func TestBrokenBodies(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Limits: Limits{MaxMessage: 100}})
	for name, c := range map[string]struct {
		body io.Reader
		want int
		id   string
	}{
		"too slow":              {failingBody{os.ErrDeadlineExceeded}, http.StatusRequestTimeout, ""},
		"broken":                {failingBody{errors.New("reset")}, http.StatusBadRequest, ""},
		"too large, unsaid":     {io.MultiReader(strings.NewReader(pingBody), bytes.NewReader(make([]byte, 100))), http.StatusRequestEntityTooLarge, "1"},
		"as large as can be":    {io.MultiReader(strings.NewReader(pingBody), strings.NewReader(strings.Repeat(" ", 100-len(pingBody)))), http.StatusOK, "1"},
		"one byte over":         {io.MultiReader(strings.NewReader(pingBody), strings.NewReader(strings.Repeat(" ", 101-len(pingBody)))), http.StatusRequestEntityTooLarge, "1"},
		"too large, as it says": {strings.NewReader(strings.Repeat(" ", 101)), http.StatusRequestEntityTooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, c.body)
			if r.ContentLength == 0 {
				r.ContentLength = -1 // as of a chunked body
			}
			w := do(s, r)
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			if id := `"id":` + cmp.Or(c.id, "null") + ","; !strings.Contains(w.Body.String(), id) {
				t.Errorf("the answer %s has not %s", w.Body, id)
			}
		})
	}
}

func TestAccepts(t *testing.T) {
	for header, want := range map[string]responseTypes{
		"":                                     {json: true, events: true},
		"*/*":                                  {json: true, events: true},
		"application/json":                     {json: true},
		"text/event-stream":                    {events: true, eventsFirst: true},
		"Application/JSON , text/event-stream": {json: true, events: true},
		"text/event-stream, application/json":  {json: true, events: true, eventsFirst: true},
		"text/event-stream;q=0, */*":           {json: true},
		"*/*, application/json;q=0":            {events: true},
		"text/event-stream, text/*;q=0":        {},
		"application/*":                        {json: true},
		"text/*":                               {events: true, eventsFirst: true},
		"text/html":                            {},
		"text/html, */*;q=0.1":                 {json: true, events: true},
		"*/*;q=0":                              {},
		"application/json; charset=utf-8;q=0.000": {},
	} {
		if got := parseAccept([]string{header}); got != want {
			t.Errorf("%q: %+v, want %+v", header, got, want)
		}
	}
}

// The gauges count open sessions and streams.
func TestMetrics(t *testing.T) {
	h := newScriptHandler()
	s := New(Options{Handler: h, Info: wire.Raw(`{"name":"gateway","version":"1"}`)})
	web := httptest.NewServer(s)
	defer web.Close()
	session := connect(t, web.URL, "2025-11-25", nil)
	expect := func(sessions, streams float64) {
		t.Helper()
		if got := testutil.ToFloat64(s.options.Metrics.Sessions.WithLabelValues("legacy")); got != sessions {
			t.Errorf("%v sessions, want %v", got, sessions)
		}
		if got := testutil.ToFloat64(s.options.Metrics.Streams.WithLabelValues("legacy")); streams >= 0 && got != streams {
			t.Errorf("%v streams, want %v", got, streams)
		}
	}
	expect(1, -1) // the client opens its stream at any time
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	web.Close() // returns when no request runs
	expect(0, 0)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.options.Metrics.Collectors()...)
	if n, err := testutil.GatherAndCount(registry, "mcp_gateway_sessions", "mcp_gateway_streams"); n != 3 || err != nil {
		t.Errorf("%d time series, want sessions of one era and streams of two: %v", n, err)
	}
}

// Session ids are long, visible ASCII, and unique.
func TestSessionIDs(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		id := session.NewID()
		if len(id) < 32 || seen[id] || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
	}
}

// lateHandler notifies and asks after it has returned, which is forbidden. Nothing of that
// may reach a complete response.
type lateHandler struct{ back chan call.BackChannel }

func (l lateHandler) Handle(_ context.Context, c *call.Call) (call.Result, error) {
	l.back <- c.Back
	return own(`{"content":[]}`)
}

func TestBackChannelAfterTheEnd(t *testing.T) {
	l := lateHandler{make(chan call.BackChannel, 1)}
	s := New(Options{Handler: l, Info: wire.Raw(`{}`)})
	w := do(s, request(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)))
	before := w.Body.String()
	back := <-l.back
	back.Notify(wire.NoteProgress, wire.Raw(`{}`))
	if res, err := back.Ask(t.Context(), wire.MethodElicit, nil); err != nil || string(res) != `{"action":"cancel"}` {
		t.Errorf("asked after the end: %s, %v", res, err)
	}
	if w.Body.String() != before {
		t.Errorf("the response became %s", w.Body)
	}
}
