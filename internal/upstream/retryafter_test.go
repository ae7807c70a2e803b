package upstream

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// Clients get the time after which a server may be asked again.
func TestRetryAfter(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		header string
		want   string // suffix of the error data
	}{
		"429":                  {429, "7", `,"retryAfter":7}`},
		"429 without a header": {429, "", `,"retryAfter":5}`},
		"503":                  {503, "20", `,"retryAfter":20}`},
		"503 without a header": {503, "", `"retryable":false}`},
		"a very long time":     {503, "99999999", `,"retryAfter":3600}`},
		"overflow":             {503, "99999999999999999999", `"retryable":false}`},
		"a date":               {503, "Wed, 21 Oct 2026 07:28:00 GMT", `"retryable":false}`},
		"below zero":           {503, "-1", `"retryable":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{on: map[string]on{
				wire.MethodToolsList: lists[wire.MethodToolsList],
				wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
					if tc.header != "" {
						w.Header().Set("Retry-After", tc.header)
					}
					w.WriteHeader(tc.status)
				},
			}}
			u, err := url.Parse(serve(t, s).URL)
			if err != nil {
				t.Fatal(err)
			}
			r := start(t, Options{Server: Server{HTTP: &httpconn.Config{URL: u}, Era: wire.EraLegacy}})
			r.watch.wait(t, isReady)
			_, err = r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))
			if got := upstreamtest.DataOf(t, err); !strings.HasSuffix(got, tc.want) {
				t.Errorf("data %s, want %s", got, tc.want)
			}
		})
	}
}
