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

// lot is a server whose calls can be parked, in a bubble with a clock of its own.
type lot struct {
	t            *testing.T
	s            *Server
	logs         *observer.ObservedLogs
	stop         func()
	refuse       *wire.Error      // what Permit says
	sessionEnded func(key string) // Options.SessionEnded, may be nil
	remote       string           // the address that requests come from
	info         string           // clientInfo of requests, "" for none

	mu    sync.Mutex
	ended []string // why the contexts of calls ended, in order
}

const parkTTL = 5 * time.Minute

// withLot runs f in a bubble, in front of a handler. The server has ended when it
// returns, and no parked call is left.
func withLot(t *testing.T, h handlerFunc, f func(*lot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		l := &lot{t: t, logs: logs}
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
			Parking: Parking{Replica: "here", Permit: func(*call.Call) *wire.Error { return l.refuse }},
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

// reply is what one POST got.
type reply struct {
	l      *lot
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

// text is the body once the answer is complete, "" before.
func (r *reply) text() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		return ""
	}
	return r.body.String()
}

// message is the last message of the answer, nil before it is complete.
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

// round is the input_required result that the reply must be.
func (r *reply) round() (requests map[string]any, state string) {
	r.l.t.Helper()
	m := r.message()
	result, _ := m["result"].(map[string]any)
	if result["resultType"] != "input_required" {
		r.l.t.Fatalf("the answer is %v, want input_required", m)
	}
	return result["inputRequests"].(map[string]any), result["requestState"].(string)
}

// result is the member "r" of the result, which tests put what they want to see into.
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

// post sends a tools/call of the tool t with more members of params, and returns
// without waiting for the answer.
func (l *lot) post(more string) *reply {
	return l.postAs(call.Anonymous, allCaps, `{"a":1,"b":[1.0,"x"]}`, more)
}

func (l *lot) postAs(who *call.Principal, caps, arguments, more string) *reply {
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

// gathered lets the window for further questions pass.
func gathered() { time.Sleep(park.GatherWindow); synctest.Wait() }

func retry(state, responses string) string {
	return fmt.Sprintf(`"requestState":%q,"inputResponses":%s`, state, responses)
}

// refusals are the reasons in the log for which states were refused.
func (l *lot) refusals() []string {
	var out []string
	for _, e := range l.logs.TakeAll() {
		if e.Message == "request state refused" {
			out = append(out, fmt.Sprint(e.ContextMap()["reason"]))
		}
	}
	return out
}

// causes are why calls ended.
func (l *lot) causes() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// elicit asks for a form with a message and returns the answer as text.
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
