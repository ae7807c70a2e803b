package frontend

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// refusingHandler refuses each call with the same error.
type refusingHandler struct{ err error }

func (r refusingHandler) Handle(context.Context, *call.Call) (call.Result, error) {
	return call.Result{}, r.err
}

// A refused call has the HTTP status for its reason in both eras, if the response is
// JSON. The body is the same in all cases.
func TestRefusedCalls(t *testing.T) {
	fault := wire.Errorf(wire.CodeInternal, "no")
	modern := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	const legacy = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	for _, tt := range []struct {
		name, body, accept string
		err                error
		status             int
		header, value      string
	}{
		{"a bound, modern", modern, "application/json", &call.Refused{Err: fault, RetryAfter: 1500 * time.Millisecond}, http.StatusTooManyRequests, "Retry-After", "2"},
		{"a bound, legacy", legacy, "application/json, text/event-stream", &call.Refused{Err: fault, RetryAfter: time.Second}, http.StatusTooManyRequests, "Retry-After", "1"},
		{"scopes", legacy, "", &call.Refused{Err: fault, Scopes: []string{"a", "b:c"}}, http.StatusForbidden, "Www-Authenticate", `Bearer error="insufficient_scope", scope="a b:c"`},
		{"events only", legacy, "text/event-stream", &call.Refused{Err: fault, RetryAfter: time.Second}, http.StatusOK, "Retry-After", ""},
		{"another error", legacy, "", fault, http.StatusOK, "Retry-After", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(Options{Handler: refusingHandler{tt.err}, Info: wire.Raw(`{}`)})
			r := request(t, strings.NewReader(tt.body))
			if tt.accept != "" {
				r.Header.Set("Accept", tt.accept)
			}
			if tt.body == modern {
				r.Header.Set(wire.HeaderVersion, "2026-07-28")
				r.Header.Set(wire.HeaderMethod, "tools/call")
				r.Header.Set(wire.HeaderName, "x")
			}
			w := do(s, r)
			if w.Code != tt.status || w.Header().Get(tt.header) != tt.value {
				t.Errorf("status %d, %s: %q; want %d, %q", w.Code, tt.header, w.Header().Get(tt.header), tt.status, tt.value)
			}
			if !strings.Contains(withoutRequestIDs(t, w.Body.String()), `"error":{"code":-32603,"message":"no"}`) {
				t.Errorf("body %s", w.Body)
			}
		})
	}
}
