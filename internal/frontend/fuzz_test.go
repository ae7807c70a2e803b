package frontend

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// Each input gets a well-formed answer, and causes no panic.
func FuzzPost(f *testing.F) {
	for _, body := range []string{
		pingBody, `[` + pingBody + `]`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"region":"eu"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`,
	} {
		for _, version := range []string{"", "2025-03-26", "2026-07-28"} {
			f.Add([]byte(body), version, "tools/call", "echo", "")
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, version, method, name, accept string) {
		if bytes.Contains(body, []byte("listen")) || bytes.Contains(body, []byte("wait")) || bytes.Contains(body, []byte("panic")) || bytes.Contains(body, []byte(`\u`)) {
			return // these hang or panic on purpose
		}
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
		first := httptest.NewRecorder()
		r := request(t, bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`)))
		s.ServeHTTP(first, r)
		for _, session := range [][]string{nil, first.Header()[wire.HeaderSession]} {
			r := request(t, bytes.NewReader(body))
			for key, value := range map[string]string{wire.HeaderVersion: version, wire.HeaderMethod: method, wire.HeaderName: name, "Accept": accept} {
				if value != "" {
					r.Header.Set(key, value)
				}
			}
			if session != nil {
				r.Header[wire.HeaderSession] = session
			}
			w := do(s, r)
			switch w.Code {
			case http.StatusOK, http.StatusAccepted, http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable:
			default:
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			if w.Header().Get("Content-Type") == "application/json" {
				if err := wire.Check(w.Body.Bytes(), wire.Limits{Depth: 2000}, wire.Lenient); err != nil {
					t.Errorf("answer %s: %v", w.Body, err)
				}
			}
		}
	})
}

// Several Accept headers mean the same as one with all their items (RFC 9110, section 5.3).
func FuzzAccept(f *testing.F) {
	f.Add("application/json", "text/event-stream")
	f.Add("*/*;q=0.5, text/*", "application/json;q=0")
	f.Add("text/event-stream; charset=utf-8 ;Q=0.000", "application/*")
	f.Fuzz(func(t *testing.T, one, other string) {
		if strings.TrimSpace(one) == "" || strings.TrimSpace(other) == "" {
			return // an empty header counts as */*
		}
		two, joined := parseAccept([]string{one, other}), parseAccept([]string{one + "," + other})
		if two != joined {
			t.Errorf("%q and %q: %+v; joined: %+v", one, other, two, joined)
		}
		if joined.eventsFirst && !joined.events {
			t.Errorf("%q and %q prefer events, which they do not accept", one, other)
		}
	})
}

// The acknowledgement of any filter is valid JSON, and a filter that is not an object is refused.
func FuzzListen(f *testing.F) {
	f.Add([]byte(`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["memo:a"]}}`))
	f.Add([]byte(`{"notifications":{"promptsListChanged":1,"resourcesListChanged":null}}`))
	f.Add([]byte(`{"notifications":[]}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		if wire.Check(params, wire.Limits{Depth: 100}, wire.Strict) != nil {
			return
		}
		sub, err := parseSubscription(params, wire.ID{})
		if err != nil {
			return
		}
		if wire.ValueOf(params).Get("notifications").Kind() != '{' {
			t.Errorf("%s: the filter is read", params)
		}
		if ack := sub.acknowledgement(); wire.Check(ack, wire.Limits{Depth: 100}, wire.Strict) != nil {
			t.Errorf("%s is acknowledged with %s", params, ack)
		}
	})
}
