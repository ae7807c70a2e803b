package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReload(t *testing.T) {
	const token = "s3cret"
	for _, tt := range []struct {
		name, verb, from, host, token string
		header                        http.Header
		status                        int
	}{
		{name: "on loopback", status: 422},
		{name: "on loopback by name", host: "localhost:9090", status: 422},
		{name: "on loopback, version 6", from: "[::1]:1", host: "[::1]:9090", status: 422},
		{name: "from elsewhere", from: "192.0.2.7:1", status: 403},
		{name: "through a proxy on this machine", header: http.Header{"X-Forwarded-For": {"192.0.2.7"}}, status: 403},
		{name: "through a proxy of RFC 7239", header: http.Header{"Forwarded": {"for=192.0.2.7"}}, status: 403},
		{name: "through a proxy that says only its name", header: http.Header{"Via": {"1.1 proxy"}}, status: 403},
		{name: "through nginx", header: http.Header{"X-Real-Ip": {"127.0.0.1"}}, status: 403},
		{name: "through a proxy, with the token", token: token, header: http.Header{"X-Forwarded-For": {"192.0.2.7"}, "Authorization": {"Bearer " + token}}, status: 422},
		{name: "a page of another origin", header: http.Header{"Origin": {"https://page.example"}}, status: 403},
		{name: "a form of another site", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
		{name: "a sandboxed page", header: http.Header{"Origin": {"null"}}, status: 403},
		{name: "a name that was rebound", host: "page.example:9090", header: http.Header{"Origin": {"http://page.example:9090"}}, status: 403},
		{name: "not by GET", verb: http.MethodGet, status: 405},
		{name: "without the token", token: token, status: 401},
		{name: "with a wrong token", token: token, header: http.Header{"Authorization": {"Bearer x"}}, status: 401},
		{name: "with the token", token: token, from: "192.0.2.7:1", host: "gateway:9090", header: http.Header{"Authorization": {"Bearer " + token}}, status: 422},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reloads := 0
			h := handler(Options{Token: tt.token, Reload: func(context.Context) (int, any) {
				reloads++
				return http.StatusUnprocessableEntity, map[string]string{"status": "refused"}
			}})
			verb := tt.verb
			if verb == "" {
				verb = http.MethodPost
			}
			r := httptest.NewRequest(verb, "/-/reload", nil)
			r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1:9090"
			if tt.from != "" {
				r.RemoteAddr = tt.from
			}
			if tt.host != "" {
				r.Host = tt.host
			}
			if tt.header != nil {
				r.Header = tt.header
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if through := tt.status == 422; through != (reloads == 1) || through && !strings.Contains(w.Body.String(), `"refused"`) {
				t.Errorf("%d reloads, and the answer %s", reloads, w.Body)
			}
		})
	}
	w := httptest.NewRecorder()
	handler(Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/-/reload", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("where nothing can be reloaded: %d", w.Code)
	}
}
