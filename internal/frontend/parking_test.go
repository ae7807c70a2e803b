package frontend

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/wire"
)

type handlerFunc func(context.Context, *call.Call) (call.Result, error)

func (f handlerFunc) Handle(ctx context.Context, c *call.Call) (call.Result, error) { return f(ctx, c) }

// parkingServer is a server whose calls can be parked, in a synctest bubble.
type parkingServer struct {
	t            *testing.T
	s            *Server
	logs         *observer.ObservedLogs
	stop         func()
	refuse       error            // what Permit returns
	sessionEnded func(key string) // Options.SessionEnded, may be nil
	remote       string           // the address that requests come from
	info         string           // clientInfo of requests, "" for none

	mu    sync.Mutex
	ended []string // why the contexts of calls ended, in order
}

const parkTTL = 5 * time.Minute

// withParking runs f with a parkingServer in front of a handler. Then it stops the server
// and checks that no parked call is left.
func withParking(t *testing.T, h handlerFunc, f func(*parkingServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		l := &parkingServer{t: t, logs: logs}
		handler := func(ctx context.Context, c *call.Call) (call.Result, error) {
			res, err := h(ctx, c)
			if cause := context.Cause(ctx); cause != nil {
				l.mu.Lock()
				l.ended = append(l.ended, cause.Error())
				l.mu.Unlock()
			}
			return res, err
		}
		l.s = New(Options{
			Handler: handlerFunc(handler), Info: wire.Raw(`{"name":"gateway"}`), Logger: zap.New(core),
			Settings: Settings{ParkTTL: parkTTL}, Limits: Limits{MaxParked: 3},
			Parking: Parking{Replica: "here", Permit: func(context.Context, *call.Call) error { return l.refuse }},
			Events: Events{SessionEnded: func(key string) {
				if l.sessionEnded != nil {
					l.sessionEnded(key)
				}
			}},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.s.Run(ctx) }()
		l.stop = func() { cancel(); <-done }
		f(l)
		l.stop()
		synctest.Wait()
		if n := testutil.ToFloat64(l.s.options.Metrics.Parked); n != 0 {
			t.Errorf("%v calls are still parked", n)
		}
		if calls, bodies := l.s.calls.Held(), l.s.bodies.Held(); calls != 0 || bodies != 0 {
			t.Errorf("%d calls and %d bytes of bodies are still held", calls, bodies)
		}
	})
}

// reply is the response to one POST.
type reply struct {
	l      *parkingServer
	cancel context.CancelFunc
	header http.Header

	mu     sync.Mutex
	status int
	body   bytes.Buffer
	done   bool
}

func (r *reply) Header() http.Header { return r.header }
func (r *reply) WriteHeader(s int)   { r.mu.Lock(); r.status = s; r.mu.Unlock() }
func (r *reply) Flush()              {}
func (r *reply) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.Write(b)
}

// text returns the body of a complete response, or "".
func (r *reply) text() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		return ""
	}
	return r.body.String()
}

// message returns the last message of a complete response, or nil.
func (r *reply) message() map[string]any {
	r.l.t.Helper()
	text := r.text()
	if i := strings.LastIndex(text, "data: "); i >= 0 {
		text = text[i+len("data: "):]
	}
	if text == "" {
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		r.l.t.Fatalf("%v in %q", err, text)
	}
	return m
}

// round returns the parts of the input_required result, which the reply must be.
func (r *reply) round() (requests map[string]any, state string) {
	r.l.t.Helper()
	m := r.message()
	result, _ := m["result"].(map[string]any)
	if result["resultType"] != "input_required" {
		r.l.t.Fatalf("the answer is %v, want input_required", m)
	}
	return result["inputRequests"].(map[string]any), result["requestState"].(string)
}

// result returns the member "r" of the result, which the handlers of tests set.
func (r *reply) result() any {
	r.l.t.Helper()
	m := r.message()
	result, ok := m["result"].(map[string]any)
	if !ok {
		r.l.t.Fatalf("the answer is %v, want a result", m)
	}
	return result["r"]
}

func (r *reply) fault(code float64, message string) {
	r.l.t.Helper()
	e, _ := r.message()["error"].(map[string]any)
	if e["code"] != code || !strings.Contains(fmt.Sprint(e["message"]), message) {
		r.l.t.Errorf("the answer is %v, want error %v %q", r.message(), code, message)
	}
}

const allCaps = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// post sends a tools/call of the tool t with more members of params. It does not wait for
// the response.
func (l *parkingServer) post(more string) *reply {
	return l.postAs(call.Anonymous, allCaps, `{"a":1,"b":[1.0,"x"]}`, more)
}

func (l *parkingServer) postAs(who *call.Principal, caps, arguments, more string) *reply {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + caps
	if rest, ok := strings.CutPrefix(more, "META "); ok { // progress token and log level
		var extra string
		extra, more, _ = strings.Cut(rest, ";")
		meta += "," + extra
	}
	if l.info != "" {
		meta += `,"io.modelcontextprotocol/clientInfo":` + l.info
	}
	params := `{"name":"t","arguments":` + arguments + `,` + meta + `}`
	if more != "" {
		params += "," + more
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/mcp",
		io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}}`)))
	if err != nil {
		l.t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", wire.HeaderVersion: "2026-07-28", wire.HeaderMethod: wire.MethodToolsCall, wire.HeaderName: "t",
	} {
		req.Header.Set(k, v)
	}
	req.RemoteAddr = l.remote
	r := &reply{l: l, cancel: cancel, header: make(http.Header)}
	l.s.options.Authenticate = func(*http.Request) (*call.Principal, error) { return who, nil }
	go func() {
		l.s.ServeHTTP(r, req)
		r.mu.Lock()
		r.done = true
		r.mu.Unlock()
		cancel()
	}()
	synctest.Wait()
	return r
}

// gathered waits until the window for further asks has passed.
func gathered() { time.Sleep(park.GatherWindow); synctest.Wait() }

func retry(state, responses string) string {
	return fmt.Sprintf(`"requestState":%q,"inputResponses":%s`, state, responses)
}

// refusals returns the logged reasons for which states were refused.
func (l *parkingServer) refusals() []string {
	var out []string
	for _, e := range l.logs.TakeAll() {
		if e.Message == "request state refused" {
			out = append(out, fmt.Sprint(e.ContextMap()["reason"]))
		}
	}
	return out
}

// causes returns the causes with which calls ended.
func (l *parkingServer) causes() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// elicit asks with a form and returns the answer as text.
func elicit(ctx context.Context, c *call.Call, message string) string {
	a, err := c.Back.Ask(ctx, wire.MethodElicit, wire.Raw(`{"message":"`+message+`"}`))
	if err != nil {
		return "error: " + err.Error()
	}
	return string(a)
}

func say(v any) (call.Result, error) {
	text, err := json.Marshal(v)
	return call.Result{Raw: append(append(wire.Raw(`{"content":[],"r":`), text...), '}')}, err
}

func askOnce(ctx context.Context, c *call.Call) (call.Result, error) {
	return say(elicit(ctx, c, "name?"))
}
