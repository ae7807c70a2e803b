package webui

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/requestid"
)

// actionConsole returns a console with one more action, which counts how often it is done.
func actionConsole(t *testing.T, o Options) (c *Console, done *int, lines *observer.ObservedLogs) {
	t.Helper()
	done = new(int)
	before := actions
	t.Cleanup(func() { actions = before })
	actions = append([]*action{{path: "/test-action", name: "test", logged: []string{"upstream"}, do: func(c *Console, w http.ResponseWriter, r *http.Request) {
		*done++
		http.Redirect(w, r, Prefix, http.StatusSeeOther)
	}}}, actions...)
	core, lines := observer.New(zap.InfoLevel)
	o.Log = zap.New(core)
	c, _ = newTestConsole(t, o)
	return c, done, lines
}

// Actions are done for a form of the console alone, sent by a session of it, and only if the configuration
// allows actions.
func TestActionsAreGuarded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options Options
		change  func(q *request) // of the request that is served
		status  int
		refused string
	}{
		{name: "without a token, on this machine", options: Options{Actions: true}, status: 303},
		{name: "logged in", options: Options{Actions: true, Token: "s3cret"}, status: 303},
		{name: "by the same origin", options: Options{Actions: true}, change: func(q *request) {
			q.header = http.Header{"Origin": {"http://127.0.0.1:9090"}, "Sec-Fetch-Site": {"same-origin"}}
		}, status: 303},
		{name: "actions are off", options: Options{Token: "s3cret"}, status: 403, refused: "admin.actions: true"},
		{name: "actions are off, without a token", status: 403, refused: "admin.actions: true"},
		{name: "not logged in", options: Options{Actions: true, Token: "s3cret"}, change: func(q *request) { q.cookies = nil }, status: 401},
		{name: "without the token of the form", options: Options{Actions: true}, change: func(q *request) { q.form.Del("csrf") }, status: 403},
		{name: "with another token of the form", options: Options{Actions: true, Token: "s3cret"}, change: func(q *request) { q.form.Set("csrf", "x") }, status: 403},
		{name: "with the token in the query", options: Options{Actions: true}, change: func(q *request) {
			q.path += "?csrf=" + url.QueryEscape(q.form.Get("csrf"))
			q.form.Del("csrf")
		}, status: 403},
		{name: "from another site", options: Options{Actions: true}, change: func(q *request) {
			q.header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}
		}, status: 403},
		{name: "from another port", options: Options{Actions: true}, change: func(q *request) { q.header = http.Header{"Sec-Fetch-Site": {"same-site"}} }, status: 403},
		{name: "from another origin", options: Options{Actions: true}, change: func(q *request) { q.header = http.Header{"Origin": {"http://127.0.0.1:3000"}} }, status: 403},
		{name: "from a sandboxed page", options: Options{Actions: true}, change: func(q *request) { q.header = http.Header{"Origin": {"null"}} }, status: 403},
		{name: "with a name that was rebound", options: Options{Actions: true}, change: func(q *request) { q.host = "page.example:9090" }, status: 403},
		{name: "from another machine without a token", options: Options{Actions: true}, change: func(q *request) { q.from = "192.0.2.7:1" }, status: 403},
		{name: "through a proxy without a token", options: Options{Actions: true}, change: func(q *request) { q.header = http.Header{"X-Forwarded-For": {"192.0.2.7"}} }, status: 403},
		{name: "by GET", options: Options{Actions: true}, change: func(q *request) { q.method, q.form = http.MethodGet, nil }, status: 405},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, done, lines := actionConsole(t, tt.options)
			q := request{method: http.MethodPost, path: "/ui/test-action", form: url.Values{"upstream": {"files"}, "secret": {"hidden"}}}
			if tt.options.Token != "" {
				q.cookies = login(t, c, tt.options.Token)
			}
			q.form.Set("csrf", tokenOn(t, request{path: "/ui", cookies: q.cookies}.to(c)))
			if tt.change != nil {
				tt.change(&q)
			}
			w := q.to(c)
			if w.Code != tt.status || *done != 0 != (tt.status == 303) || !strings.Contains(w.Body.String(), tt.refused) {
				t.Errorf("%d, done %d times: %s", w.Code, *done, w.Body)
			}
			logged := tt.status == 303 || tt.refused != ""
			if got := lines.Len() == 1; got != logged {
				t.Fatalf("the log has %v", lines.All())
			}
			if logged {
				fields := lines.All()[0].ContextMap()
				if fields["action"] != "test" || fields["by"] != "admin" || fields["upstream"] != "files" || fields["remote"] != "127.0.0.1:1" || fields["secret"] != nil || fields["request"] != w.Header().Get(requestid.Header) {
					t.Errorf("the log has %v", fields)
				}
			}
		})
	}
}
