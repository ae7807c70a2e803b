package frontend

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gzipped"
	"mcpgateway/internal/wire"
)

func TestParseAcceptEncoding(t *testing.T) {
	for _, tt := range []struct {
		header         string
		gzip, identity bool
	}{
		{"", false, true},
		{"gzip", true, true},
		{"gzip, deflate", true, true},
		{"br, GZIP ;q=0.5", true, true},
		{"x-gzip", true, true},
		{"gzip;q=0", false, true},
		{"gzip;q=0.000", false, true},
		{"gzip;q=0.001", true, true},
		{"gzip;q=1.000", true, true},
		{"deflate, br, zstd", false, true},
		{"*", true, true},
		{"*;q=0", false, false},
		{"*;q=0, gzip", true, false},
		{"*;q=0, identity", false, true},
		{"*, gzip;q=0", false, true},
		{"identity;q=0", false, false},
		{"identity;q=0, gzip", true, false},
		{"identity; q=0.0 , *;q=0.1", true, false},
		{"identity", false, true},
		{"gzip;q=0.5, identity;q=0.8", false, true},
		{"gzip;q=0.8, identity;q=0.5", true, true},
		{"gzip;q=2", false, true},
		{"gzip;q=0.1234", false, true},
		{"gzip;q=a", false, true},
		{"gzip;q", false, true},
		{"gzip;level=9", false, true},
		{"gzip;q=0.x", false, true},
		{";q=1,,gzip", true, true},
	} {
		if got := parseAcceptEncoding([]string{tt.header}); got != (codings{tt.gzip, tt.identity}) {
			t.Errorf("%q: %+v, want gzip %v, identity %v", tt.header, got, tt.gzip, tt.identity)
		}
	}
	if got := parseAcceptEncoding(nil); got != (codings{false, true}) {
		t.Errorf("no header: %+v", got)
	}
	if got := parseAcceptEncoding([]string{"br", "gzip"}); !got.gzip {
		t.Errorf("two headers: %+v", got)
	}
}

// answers returns what the constant handlers of these tests answer, by method.
type answersByMethod map[string]call.Result

func (a answersByMethod) Handle(_ context.Context, c *call.Call) (call.Result, error) {
	if res, ok := a[c.Method]; ok {
		return res, nil
	}
	return call.Result{Raw: wire.Raw(`{}`)}, nil
}

// decodeMember decodes a body that must be one gzip member.
func decodeMember(t *testing.T, body []byte) string {
	t.Helper()
	in := bytes.NewReader(body)
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatalf("%v: %.80q", err, body)
	}
	z.Multistream(false)
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if in.Len() > 0 {
		t.Errorf("%d bytes follow the member", in.Len())
	}
	return string(text)
}

func TestContentCoding(t *testing.T) {
	random := make([]byte, compressResult)
	for i := range random {
		random[i] = byte('!' + rand.N(90))
		if random[i] == '"' || random[i] == '\\' {
			random[i] = ' '
		}
	}
	text := func(s string) call.Result {
		return call.Result{Raw: wire.Raw(`{"content":[{"type":"text","text":"` + s + `"}]}`), Extra: `"odd":1`}
	}
	short := call.Result{Raw: wire.Raw(`{"tools":[]}`), Page: &call.Page{Start: 1, Text: new(gzipped.Text)}}
	h := answersByMethod{
		wire.MethodToolsList:     listPage(100),
		wire.MethodPromptsList:   short,
		wire.MethodToolsCall:     text(strings.Repeat("words ", compressResult/6)),
		wire.MethodPromptsGet:    text(strings.Repeat("x", 1000)),
		wire.MethodResourcesRead: text(string(random)),
	}
	lists, all, none := Settings{CompressLists: true}, Settings{CompressLists: true, CompressResults: true}, Settings{}
	const plain, zipped = "", "gzip"
	for _, tt := range []struct {
		name, method, accept string
		settings             Settings
		coding               string
		vary                 bool
	}{
		{"a page", wire.MethodToolsList, "gzip, deflate", lists, zipped, true},
		{"a page, not accepted", wire.MethodToolsList, "br", lists, plain, true},
		{"a page, turned off", wire.MethodToolsList, "gzip", none, plain, false},
		{"a page, not turned off for a client that accepts gzip only", wire.MethodToolsList, "gzip, identity;q=0", none, zipped, false},
		{"a short page", wire.MethodPromptsList, "gzip", lists, plain, false},
		{"a large result", wire.MethodToolsCall, "gzip", all, zipped, true},
		{"a large result, not accepted", wire.MethodToolsCall, "identity", all, plain, true},
		{"a large result, lists only", wire.MethodToolsCall, "gzip", lists, plain, false},
		{"a small result", wire.MethodPromptsGet, "gzip", all, plain, false},
		{"a small result, gzip only", wire.MethodPromptsGet, "gzip, identity;q=0", all, zipped, false},
		{"a result that does not become smaller", wire.MethodResourcesRead, "gzip", all, plain, true},
		{"a result that does not become smaller, gzip only", wire.MethodResourcesRead, "gzip, identity;q=0", all, zipped, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, rev := range []wire.Revision{wire.Rev20250618, wire.Rev20260728} {
				s := New(Options{Handler: h, Info: wire.Raw(`{"name":"gateway","version":"1"}`), Settings: tt.settings})
				bodies := map[string]string{}
				for _, accept := range []string{"", tt.accept, tt.accept} { // the second time from what was kept
					w := do(s, requestOf(t, rev, tt.method, accept))
					got := w.Header().Get("Content-Encoding")
					if accept == "" && got != plain || accept != "" && (got != tt.coding || (w.Header().Get("Vary") == "Accept-Encoding") != tt.vary) {
						t.Fatalf("%s, %q: headers %v", rev, accept, w.Header())
					}
					if w.Code != http.StatusOK || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) || w.Header().Get("Content-Type") != "application/json" {
						t.Errorf("%s, %q: status %d, %d bytes, headers %v", rev, accept, w.Code, w.Body.Len(), w.Header())
					}
					body := w.Body.String()
					if got == zipped {
						body = decodeMember(t, w.Body.Bytes())
					}
					bodies[accept] = body
				}
				if bodies[""] != bodies[tt.accept] || !strings.HasPrefix(bodies[""], `{"jsonrpc":"2.0","id":"the id","result":{`) {
					t.Errorf("%s: compressed is\n%.300s, plain is\n%.300s", rev, bodies[tt.accept], bodies[""])
				}
			}
		})
	}
}

// requestOf returns a request of a client without a session.
func requestOf(t *testing.T, rev wire.Revision, method, acceptEncoding string) *http.Request {
	params := `"name":"n","uri":"x:y"`
	if rev.Era() == wire.EraModern {
		params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	r := request(t, strings.NewReader(`{"jsonrpc":"2.0","id":"the id","method":"`+method+`","params":{`+params+`}}`))
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(wire.HeaderVersion, string(rev))
	if rev.Era() == wire.EraModern {
		r.Header.Set(wire.HeaderMethod, method)
		switch method {
		case wire.MethodToolsCall, wire.MethodPromptsGet:
			r.Header.Set(wire.HeaderName, "n")
		case wire.MethodResourcesRead:
			r.Header.Set(wire.HeaderName, "x:y")
		}
	}
	if acceptEncoding != "" {
		r.Header.Set("Accept-Encoding", acceptEncoding)
	}
	return r
}

// A call is not made if its answer would have no acceptable coding.
func TestNoAcceptableCoding(t *testing.T) {
	h := newScriptHandler()
	s := New(Options{Handler: h, Info: wire.Raw(`{}`)})
	w := do(s, requestOf(t, wire.Rev20250618, wire.MethodToolsCall, "br, identity;q=0"))
	if w.Code != http.StatusNotAcceptable || !strings.Contains(w.Body.String(), "Accept-Encoding must allow gzip, or identity") || h.take() != "" {
		t.Errorf("status %d, body %s", w.Code, w.Body)
	}
}

// Streams of events, refusals and answers without a body have no coding.
func TestNeverCompressed(t *testing.T) {
	page := listPage(100)
	s := New(Options{Handler: constantHandler{page}, Info: wire.Raw(`{}`), Settings: Settings{CompressLists: true, CompressResults: true}})
	events := requestOf(t, wire.Rev20250618, wire.MethodToolsList, "gzip")
	events.Header.Set("Accept", "text/event-stream")
	notification := request(t, strings.NewReader(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	notification.Header.Set("Accept-Encoding", "gzip, identity;q=0")
	notification.Header.Set(wire.HeaderVersion, "2026-07-28")
	refused := request(t, strings.NewReader(`{`+strings.Repeat(" ", 1000)))
	refused.Header.Set("Accept-Encoding", "gzip")
	for name, tt := range map[string]struct {
		r      *http.Request
		status int
	}{"events": {events, http.StatusOK}, "notification": {notification, http.StatusAccepted}, "refusal": {refused, http.StatusBadRequest}} {
		w := do(s, tt.r)
		if w.Code != tt.status || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: status %d, headers %v", name, w.Code, w.Header())
		}
		if name == "events" && !strings.Contains(w.Body.String(), `"id":"the id","result":`+string(page.Raw)+`}`) {
			t.Errorf("events %.300s", w.Body)
		}
	}
}

// A batch is compressed as one body.
func TestBatchIsCompressed(t *testing.T) {
	s := New(Options{Handler: constantHandler{listPage(1000)}, Info: wire.Raw(`{}`), Settings: Settings{CompressLists: true, CompressResults: true}})
	opened := do(s, request(t, strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}`)))
	r := request(t, strings.NewReader(`[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`))
	r.Header.Set(wire.HeaderSession, opened.Header().Get(wire.HeaderSession))
	r.Header.Set("Accept-Encoding", "gzip")
	w := do(s, r)
	if w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("status %d, headers %v", w.Code, w.Header())
	}
	if text := decodeMember(t, w.Body.Bytes()); wire.Check(wire.Raw(text), wire.Limits{}, wire.Strict) != nil || strings.Count(text, `"jsonrpc"`) != 2 {
		t.Errorf("body %.300s", text)
	}
}
