package frontend

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

// Refused requests are counted by a fixed set of reasons, and logged at a limited rate.
func TestRefusalsAreCountedAndLogged(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), LoopbackListener: true, Logger: zap.New(core)})
	for reason, change := range map[string]func(*http.Request) *http.Request{
		refusedOrigin:  func(r *http.Request) *http.Request { r.Header.Set("Origin", "https://evil.example"); return r },
		refusedSession: func(r *http.Request) *http.Request { r.Header.Set(wire.HeaderSession, "nobody's"); return r },
		refusedContent: func(r *http.Request) *http.Request { r.Header.Set("Content-Type", "text/plain"); return r },
		refusedAccept:  func(r *http.Request) *http.Request { r.Header.Set("Accept", "image/png"); return r },
		refusedMethod:  func(r *http.Request) *http.Request { r.Method = http.MethodPut; return r },
		refusedParse:   func(r *http.Request) *http.Request { return request(t, strings.NewReader(`{"secret`)) },
		refusedInvalid: func(r *http.Request) *http.Request { return request(t, strings.NewReader(`{"jsonrpc":"1.0"}`)) },
		refusedHeaders: func(*http.Request) *http.Request {
			r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"%s}}`, wire.EraModern)
			r.Header.Set(wire.HeaderName, "another")
			return r
		},
	} {
		r := request(t, strings.NewReader(pingBody))
		r.Host = "localhost"
		r = change(r)
		r.Host = "localhost"
		do(s, r)
		if got := testutil.ToFloat64(s.options.Metrics.Refused.WithLabelValues(reason)); got != 1 {
			t.Errorf("%s: counted %v times, want once", reason, got)
		}
	}
	s.Drain()
	r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"%s}}`, wire.EraModern)
	r.Host = "localhost"
	do(s, r)
	s.draining.Store(false)
	if got := testutil.ToFloat64(s.options.Metrics.Refused.WithLabelValues(refusedDraining)); got != 1 {
		t.Errorf("draining: counted %v times, want once", got)
	}
	if logs.Len() != 9 || logs.FilterMessage("session id refused").Len() != 1 {
		t.Errorf("%d lines in the log, want one for each: %v", logs.Len(), logs.All())
	}
	origin := logs.FilterField(zap.String("kind", refusedOrigin)).All()
	if len(origin) != 1 || origin[0].ContextMap()["origin"] != "https://evil.example" || origin[0].ContextMap()["host"] != "localhost" {
		t.Errorf("the log says of the origin: %v", origin)
	}
	for range 200 {
		for body, session := range map[string]string{`{"secret`: "", pingBody: "nobody's"} {
			r := request(t, strings.NewReader(body))
			r.Host = "localhost"
			if session != "" {
				r.Header.Set(wire.HeaderSession, session)
			}
			do(s, r)
		}
	}
	for _, what := range []string{"protocol violation", "session id refused"} {
		if n := logs.FilterMessage(what).Len(); n < 2 || n > 100 {
			t.Errorf("%q was logged %d times after 200 refusals", what, n)
		}
	}
	if text := logText(t, logs); strings.Contains(text, "secret") {
		t.Errorf("the log has a part of a message: %s", text)
	}
}

// A client that asks for its stream again and again while the server drains does not fill the log. A refused call is
// logged besides.
func TestRefusalsWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core)})
		h := newSessionClient(t, s)
		s.Drain()
		for range 40 {
			w := h.begin(http.MethodGet, "", "")
			if <-w.done; w.code() != http.StatusServiceUnavailable {
				t.Fatalf("status %d", w.code())
			}
			time.Sleep(time.Second)
		}
		<-h.begin(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "").done
		var methods []any
		for _, e := range logs.FilterMessage("request refused").FilterField(zap.String("kind", refusedDraining)).All() {
			methods = append(methods, e.ContextMap()["http_method"])
		}
		if diff := cmp.Diff([]any{http.MethodGet, http.MethodPost}, methods); diff != "" {
			t.Errorf("logged (-want +got):\n%s", diff)
		}
		if got := testutil.ToFloat64(s.options.Metrics.Refused.WithLabelValues(refusedDraining)); got != 41 {
			t.Errorf("counted %v times, want 41", got)
		}
	})
}

// An error of the front end has a line with the request id, whether the message is alone, in a
// batch or of a modern client. An error of the handler has none: the handler logs the call.
func TestErrorsOfTheFrontEndAreLogged(t *testing.T) {
	const setLevel = `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"s3cret"}}`
	modern := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"s3cret"%s}}`, wire.EraModern)
	modern.Header.Set(wire.HeaderMethod, wire.MethodSetLevel)
	modern.Header.Del(wire.HeaderName)
	for _, tt := range []struct {
		name    string
		request *http.Request
		handler Handler
		method  any // in the line; nil for no line
		code    int64
		reason  string
	}{
		{"a wrong level", request(t, strings.NewReader(setLevel)), newScriptHandler(), "logging/setLevel", wire.CodeInvalidParams, "level must be one of"},
		{"a modern method", request(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`)), newScriptHandler(), "server/discover", wire.CodeMethodNotFound, "is not known to revision"},
		{"a method of another era", modern, newScriptHandler(), "logging/setLevel", wire.CodeMethodNotFound, "is not known to revision"},
		{"an error of the handler", request(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)),
			&failing{err: wire.Errorf(wire.CodeInvalidParams, "no")}, nil, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			s := New(Options{Handler: tt.handler, Info: wire.Raw(`{}`), Logger: zap.New(core)})
			tt.request.Header.Set(requestid.Header, "r-1")
			if w := do(s, tt.request); !strings.Contains(w.Body.String(), `"requestId":"r-1"`) {
				t.Fatalf("answer %s", w.Body)
			}
			lines := logs.All()
			if tt.method == nil {
				if len(lines) > 0 {
					t.Errorf("logged %v", lines)
				}
				return
			}
			if len(lines) != 1 || lines[0].Message != "protocol violation" {
				t.Fatalf("logged %v", lines)
			}
			fields := lines[0].ContextMap()
			if reason, _ := fields["reason"].(string); fields["request"] != "r-1" || fields["mcp_method"] != tt.method || fields["code"] != tt.code || !strings.Contains(reason, tt.reason) {
				t.Errorf("the line has %v", fields)
			}
			if n := testutil.ToFloat64(s.options.Metrics.Refused.WithLabelValues(refusedInvalid)); n != 1 {
				t.Errorf("counted %v times", n)
			}
			if strings.Contains(logText(t, logs), "s3cret") {
				t.Errorf("the log has a part of a message: %s", logText(t, logs))
			}
		})
	}
}

// The line of a protocol violation has the principal and the reason, and nothing that the client wrote.
func TestReasonsOfViolations(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"ping","s3cret":1,"s3cret":2}`:                                                             `duplicate object member name […]`,
		`{"jsonrpc":"2.0","id":1,"method":"ping"} s3cret`:                                                                            `invalid character […] after top-level value`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"s3cret`:                                                            `unexpected EOF`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"s3cret"}}`:                                                  `params has a member […], which differs from a known one only in case`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`: `the MCP-Protocol-Version header`,
		`{"jsonrpc":"2.0","id":1,"method":"a","x` + strings.Repeat("s3cret", 99) + `":1,"x` + strings.Repeat("s3cret", 99) + `":1}`:  `duplicate object member name […]`,
	} {
		core, logs := observer.New(zap.InfoLevel)
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), LoopbackListener: true, Logger: zap.New(core)})
		r := request(t, strings.NewReader(body))
		r.Host = "localhost"
		do(s, r)
		lines := logs.FilterMessage("protocol violation").All()
		if len(lines) != 1 {
			t.Errorf("%.80s: %v", body, logs.All())
			continue
		}
		fields := lines[0].ContextMap()
		if reason, _ := fields["reason"].(string); !strings.Contains(reason, want) || fields["principal"] != "anonymous" {
			t.Errorf("%.80s: principal %v, reason %v, want …%s…", body, fields["principal"], fields["reason"], want)
		}
		if method, ok := fields["mcp_method"]; ok {
			t.Errorf("%.80s: mcp_method %q, and the request has no such header", body, method)
		}
		if strings.Contains(logText(t, logs), "s3cret") {
			t.Errorf("the log has a part of a message: %s", logText(t, logs))
		}
	}
}

// A scan of paths by strangers does not hide that a principal asked for a profile that is not theirs.
func TestRefusedEndpointsOfPrincipals(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	none := &NoEndpoint{Reason: "no", Answer: http.NotFound}
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core),
		Authenticate: func(*http.Request) (*call.Principal, error) { return nil, none }})
	for range 100 {
		do(s, request(t, strings.NewReader(pingBody)))
	}
	logs.TakeAll()
	none = &NoEndpoint{Principal: "ann", Reason: "no", Answer: http.NotFound}
	do(s, request(t, strings.NewReader(pingBody)))
	if logs.FilterMessage("request refused").FilterField(zap.String("principal", "ann")).Len() != 1 {
		t.Errorf("the log has %v", logs.All())
	}
}

// A body that is too large is logged with its sender and the limit.
func TestRefusedBodyIsLoggedWithItsSender(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core), Limits: Limits{MaxMessage: 100},
		Authenticate: func(*http.Request) (*call.Principal, error) { return &call.Principal{Subject: "ann"}, nil }})
	do(s, request(t, strings.NewReader(strings.Repeat(" ", 101))))
	if n := logs.FilterField(zap.String("principal", "ann")).FilterField(zap.String("reason", "the body is larger than the limit of 100 bytes")).Len(); n != 1 {
		t.Errorf("the log has %v", logs.All())
	}
}

// The path is logged as it was sent: decoded, an escaped slash looks like the path of a profile. The query is not logged.
func TestRefusedPathIsLoggedAsSent(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	none := &NoEndpoint{Reason: "no", Answer: http.NotFound}
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core),
		Authenticate: func(*http.Request) (*call.Principal, error) { return nil, none }})
	r := request(t, strings.NewReader(pingBody))
	at, err := url.Parse("http://gateway.test/mcp%2Fcoding%0a?key=s3cret")
	if err != nil {
		t.Fatal(err)
	}
	r.URL = at
	do(s, r)
	s.UnknownPath(httptest.NewRecorder(), r)
	if n := logs.FilterField(zap.String("path", "/mcp%2Fcoding%0a")).Len(); n != 2 {
		t.Errorf("%d of 2 lines have the path: %v", n, logs.All())
	}
}

// An Origin with more than an origin has may have a secret.
func TestRefusedOriginIsLoggedWithoutSecrets(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core)})
	r := request(t, strings.NewReader(pingBody))
	r.Header["Origin"] = []string{"https://ann:s3cret@page.example/?token=s3cret", "https://other.example"}
	do(s, r)
	if n := logs.FilterField(zap.String("origin", "https://page.example (malformed), https://other.example")).Len(); n != 1 {
		t.Errorf("the log has %v", logs.All())
	}
}

// Credentials that are refused on a page have the line of a refused request, with the path of the page. How the page answers
// is not known.
func TestRefusedOnPage(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Logger: zap.New(core)})
	r := httptest.NewRequest(http.MethodPost, "/me/login?next=secret", nil)
	for message, err := range map[string]error{
		"authentication failed": challenged{}, "request refused": &NoEndpoint{Principal: "ann", Reason: "no"},
	} {
		s.RefusedOnPage(httptest.NewRecorder(), r, err)
		lines := logs.TakeAll()
		if len(lines) != 1 || lines[0].Message != message {
			t.Fatalf("%v has the lines %v", err, lines)
		}
		if fields := lines[0].ContextMap(); fields["path"] != "/me/login" || fields["remote"] != r.RemoteAddr || fields["status"] != nil {
			t.Errorf("the line %q has %v", message, fields)
		}
	}
}
