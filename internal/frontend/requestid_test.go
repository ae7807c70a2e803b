package frontend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

var requestIDs = regexp.MustCompile(`,"data":\{"requestId":"[0-9A-Za-z._~+-]+"\}|,"requestId":"[0-9A-Za-z._~+-]+"`)

// withoutRequestIDs removes the request ids of errors from responses, which must have some.
func withoutRequestIDs(t *testing.T, text string) string {
	t.Helper()
	if !requestIDs.MatchString(text) {
		t.Errorf("no request id in %s", text)
	}
	return requestIDs.ReplaceAllString(text, "")
}

// failing answers every call with an error, and keeps the ids of the calls.
type failing struct {
	err error
	ids []string
}

func (f *failing) Handle(_ context.Context, c *call.Call) (call.Result, error) {
	f.ids = append(f.ids, c.ID)
	return call.Result{}, f.err
}

// Every response over HTTP has the id of the request, or a new one, and so has the call, an
// error of the gateway, and the line of the log.
func TestRequestIDs(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`
	for name, tt := range map[string]struct {
		method, body string
		header       http.Header
		options      Options
		logged       bool
	}{
		"a call":            {method: http.MethodPost, body: body},
		"a parse error":     {method: http.MethodPost, body: `{`, logged: true},
		"no content type":   {method: http.MethodPost, body: body, header: http.Header{"Content-Type": {"text/plain"}}, logged: true},
		"an unknown method": {method: http.MethodPut, logged: true},
		"a stranger":        {method: http.MethodPost, body: body, header: http.Header{"Origin": {"https://evil.example"}}, logged: true},
		"no session":        {method: http.MethodPost, body: body, header: http.Header{wire.HeaderSession: {"gone"}}, logged: true},
		"no credentials": {method: http.MethodPost, body: body, logged: true, options: Options{
			Authenticate: func(*http.Request) (*call.Principal, error) { return nil, errors.New("no") },
		}},
	} {
		for sent, taken := range map[string]bool{"mine-1": true, "": false, "a b": false} {
			t.Run(fmt.Sprintf("%s, %q", name, sent), func(t *testing.T) {
				core, logs := observer.New(zapcore.InfoLevel)
				h := &failing{err: wire.Errorf(wire.CodeInternal, "no").WithData(wire.Raw(`{"reason":"because"}`))}
				tt.options.Handler, tt.options.Info, tt.options.Logger = h, wire.Raw(`{}`), zap.New(core)
				r := request(t, strings.NewReader(tt.body))
				r.Method = tt.method
				for key, values := range tt.header {
					r.Header[key] = values
				}
				if sent != "" {
					r.Header.Set(requestid.Header, sent)
				}
				w := do(New(tt.options), r)
				id := w.Header().Get(requestid.Header)
				if !requestid.Valid(id) || (id == sent) != taken {
					t.Fatalf("the response has the id %q", id)
				}
				if got := wire.ValueOf(wire.Raw(w.Body.Bytes())).Get("error", "data", "requestId").Str(); got != id {
					t.Errorf("the error has the id %q, want %q: %s", got, id, w.Body)
				}
				if len(h.ids) > 1 || len(h.ids) == 1 && h.ids[0] != id {
					t.Errorf("the calls have the ids %q, want %q", h.ids, id)
				}
				if lines := logs.All(); tt.logged && (len(lines) != 1 || lines[0].ContextMap()["request"] != id) {
					t.Errorf("the log has %v, want one line with %q", lines, id)
				}
			})
		}
	}
}

// An error of an upstream stays as it is.
func TestErrorsOfUpstreamsHaveNoRequestID(t *testing.T) {
	const raw = `{"code":-32000, "message":"theirs","data":{"requestId":"theirs"}}`
	h := &failing{err: &wire.Error{Code: -32000, Message: "theirs", Raw: wire.Raw(raw)}}
	for _, era := range []wire.Era{wire.EraLegacy, wire.EraModern} {
		s := New(Options{Handler: h, Info: wire.Raw(`{}`)})
		w := do(s, callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood"%s}}`, era))
		if !strings.Contains(w.Body.String(), `"error":`+raw) {
			t.Errorf("%s: %s", era, w.Body)
		}
		if w.Header().Get(requestid.Header) == "" {
			t.Errorf("%s: the response has no id", era)
		}
	}
}

// Messages on one channel and in one request have an id each.
func TestRequestIDsOfMessages(t *testing.T) {
	h := &failing{err: wire.Errorf(wire.CodeInternal, "no")}
	synctest.Test(t, func(t *testing.T) {
		c := startStdio(t.Context(), New(Options{Handler: h, Info: wire.Raw(`{}`)}))
		for i := range 2 {
			c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"h","version":"1"}}}}`+"\n", i))
			synctest.Wait()
		}
		out := c.take()
		if len(h.ids) != 2 || h.ids[0] == h.ids[1] || !strings.Contains(out, h.ids[0]) || !strings.Contains(out, h.ids[1]) {
			t.Errorf("the calls have the ids %q, the client got %s", h.ids, out)
		}
		c.in.Close()
		<-c.done
	})
}

// The answers of a batch have the id of the request with the number of their message.
func TestRequestIDsOfABatch(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
	w := do(s, request(t, strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}`)))
	r := request(t, strings.NewReader(`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"panic"}},{"jsonrpc":"2.0","id":2,"method":"x/y"}]`))
	r.Header.Set(wire.HeaderSession, w.Header().Get(wire.HeaderSession))
	r.Header.Set(requestid.Header, "both")
	w = do(s, r)
	for _, id := range []string{"both.1", "both.2"} {
		if strings.Count(w.Body.String(), `"requestId":"`+id+`"`) != 1 {
			t.Errorf("the answer lacks %s: %s", id, w.Body)
		}
	}
	if id := w.Header().Get(requestid.Header); id != "both" {
		t.Errorf("the response has the id %q", id)
	}
}

// The line of a retry names the request that began the call, under whose id the call is logged.
func TestRetryNamesTheFirstRequest(t *testing.T) {
	var first string
	withParking(t, func(ctx context.Context, c *call.Call) (call.Result, error) {
		first = c.ID
		return askOnce(ctx, c)
	}, func(l *parkingServer) {
		began := l.post("")
		gathered()
		_, state := began.round()
		retried := l.post(retry(state, `{"ask-1":{"action":"accept"}}`))
		retried.result()
		lines := l.logs.FilterMessage("a parked call is resumed").All()
		if len(lines) != 1 {
			t.Fatalf("logged %v", l.logs.All())
		}
		fields := lines[0].ContextMap()
		if fields["first_request"] != first || first == "" || fields["request"] != retried.header.Get("X-Request-Id") {
			t.Errorf("the line has %v; the first request is %q", fields, first)
		}
	})
}
