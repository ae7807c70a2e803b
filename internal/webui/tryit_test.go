package webui

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
)

// tryConsole returns a console whose calls are made by do.
func tryConsole(t *testing.T, o Options, do func(context.Context, *call.Call) (call.Result, error)) *Console {
	t.Helper()
	o.Actions, o.Call = true, do
	c, _ := newTestConsole(t, o)
	t.Cleanup(c.tries.close)
	return c
}

// post sends a form of a page to a console.
func post(t *testing.T, c *Console, cookies []*http.Cookie, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	form.Set("csrf", tokenOn(t, request{path: "/ui", cookies: cookies}.to(c)))
	return request{method: http.MethodPost, path: path, form: form, cookies: cookies}.to(c)
}

// begin starts a try and returns the address of its page.
func begin(t *testing.T, c *Console, cookies []*http.Cookie, form url.Values) string {
	t.Helper()
	w := post(t, c, cookies, "/ui/try/call", form)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Header().Get("Location")
}

// ended waits for the end of all tries, and returns a page.
func ended(c *Console, cookies []*http.Cookie, path string) *httptest.ResponseRecorder {
	c.tries.wg.Wait()
	return request{path: path, cookies: cookies}.to(c)
}

func result(text string) func(context.Context, *call.Call) (call.Result, error) {
	return func(context.Context, *call.Call) (call.Result, error) { return call.Result{Raw: wire.Raw(text)}, nil }
}

// The call has the arguments, the principal and the person of the form.
func TestTryMakesTheCall(t *testing.T) {
	var got *call.Call
	c := tryConsole(t, Options{}, func(_ context.Context, c *call.Call) (call.Result, error) {
		got = c
		return call.Result{Raw: wire.Raw(`{"content":[{"type":"text","text":"it is done"}]}`)}, nil
	})
	for name, tt := range map[string]struct {
		form           url.Values
		method, params string
		subject        string
	}{
		"a form":                      {url.Values{"kind": {"tool"}, "name": {"files__read"}, "as": {"ann,group=dev"}, "do": {"form"}, "f.0": {"/a"}}, wire.MethodToolsCall, `"name":"files__read","arguments":{"path":"/a"}`, "ann"},
		"JSON":                        {url.Values{"kind": {"tool"}, "name": {"files__read"}, "do": {"raw"}, "args": {` {"x": 1} `}}, wire.MethodToolsCall, `"arguments":{"x": 1}`, "anonymous"},
		"a prompt":                    {url.Values{"kind": {"prompt"}, "name": {"files__ask"}, "do": {"form"}, "f.0": {"go"}}, wire.MethodPromptsGet, `"name":"files__ask","arguments":{"topic":"go"}`, "anonymous"},
		"a resource":                  {url.Values{"kind": {"resource"}, "name": {"file:///a"}}, wire.MethodResourcesRead, `"uri":"file:///a"`, "anonymous"},
		"a resource that no list has": {url.Values{"kind": {"resource"}, "name": {"ui://files/b"}}, wire.MethodResourcesRead, `"uri":"ui://files/b"`, "anonymous"},
	} {
		t.Run(name, func(t *testing.T) {
			w := ended(c, nil, begin(t, c, nil, tt.form))
			if got.Method != tt.method || !strings.Contains(string(got.Params), tt.params) || got.Principal.Subject != tt.subject || got.By != "admin" || got.Remote != "127.0.0.1:1" {
				t.Errorf("%s %s as %s by %q from %q", got.Method, got.Params, got.Principal.Subject, got.By, got.Remote)
			}
			if tt.method == wire.MethodToolsCall && !strings.Contains(w.Body.String(), "it is done") {
				t.Errorf("no result in %s", w.Body)
			}
		})
	}
}

// A form with mistakes makes no call, and says what to correct.
func TestTryRefuses(t *testing.T) {
	c := tryConsole(t, Options{}, func(context.Context, *call.Call) (call.Result, error) {
		t.Error("a call was made")
		return call.Result{}, nil
	})
	for name, tt := range map[string]struct {
		form   url.Values
		status int
		want   string
	}{
		"a field is missing": {url.Values{"kind": {"tool"}, "name": {"files__read"}, "do": {"form"}}, 422, "Fill this in"},
		"no JSON":            {url.Values{"kind": {"tool"}, "name": {"files__read"}, "do": {"raw"}, "args": {"{"}}, 422, "must be a JSON object"},
		"a wrong principal":  {url.Values{"kind": {"tool"}, "name": {"files__write"}, "do": {"form"}, "as": {"ann,nothing"}}, 422, `id="as-error"`},
		"no such tool":       {url.Values{"kind": {"tool"}, "name": {"files__nothing"}}, 404, "There is no tool files__nothing now"},
	} {
		if w := post(t, c, nil, "/ui/try/call", tt.form); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// Without actions the page has no form.
func TestTryWithoutActions(t *testing.T) {
	c, _ := newTestConsole(t, Options{})
	w := request{path: "/ui/try?kind=tool&name=files__read"}.to(c)
	if body := w.Body.String(); w.Code != 200 || strings.Contains(body, "/ui/try/call") || !strings.Contains(body, "admin.actions: true") {
		t.Errorf("%d %s", w.Code, body)
	}
	if w := (request{path: "/ui/catalog/item?kind=tool&name=files__read"}).to(c); strings.Contains(w.Body.String(), "/ui/try") {
		t.Error("the item links to the page")
	}
}

// A try is seen by its login alone, and ends with it.
func TestTryBelongsToLogin(t *testing.T) {
	gone := make(chan error, 1)
	c := tryConsole(t, Options{Token: "s3cret"}, func(ctx context.Context, _ *call.Call) (call.Result, error) {
		<-ctx.Done()
		gone <- ctx.Err()
		return call.Result{}, ctx.Err()
	})
	mine, other := login(t, c, "s3cret"), login(t, c, "s3cret")
	path := begin(t, c, mine, url.Values{"kind": {"tool"}, "name": {"files__write"}, "do": {"form"}})
	if w := (request{path: path, cookies: mine}).to(c); w.Code != 200 || !strings.Contains(w.Body.String(), "Cancel the call") {
		t.Errorf("mine: %d %s", w.Code, w.Body)
	}
	id := strings.TrimPrefix(path, "/ui/try/run?")
	for _, part := range []string{"run?", "result?", "app?", "part?n=0&"} {
		if w := (request{path: "/ui/try/" + part + id, cookies: other}).to(c); w.Code != 404 {
			t.Errorf("another login gets %s: %d", part, w.Code)
		}
	}
	if w := post(t, c, other, "/ui/try/cancel", url.Values{"id": {strings.TrimPrefix(id, "id=")}}); w.Code != 404 {
		t.Errorf("another login cancels: %d", w.Code)
	}
	if w := post(t, c, mine, "/ui/logout", url.Values{}); w.Code != 303 {
		t.Fatal(w.Code)
	}
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A person answers a question of the server. A wrong answer is not sent, and one that is sent is sent once.
func TestTryAnswers(t *testing.T) {
	answered := make(chan string, 1)
	c := tryConsole(t, Options{}, func(ctx context.Context, c *call.Call) (call.Result, error) {
		if _, err := c.Back.Ask(ctx, wire.MethodSample, wire.Raw(`{}`)); err == nil {
			t.Error("sampling is answered")
		}
		raw, err := c.Back.Ask(ctx, wire.MethodElicit, wire.Raw(`{"message":"<b>who","requestedSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}`))
		answered <- string(raw)
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, err
	})
	path := begin(t, c, nil, url.Values{"kind": {"tool"}, "name": {"files__write"}, "do": {"form"}})
	id := strings.TrimPrefix(path, "/ui/try/run?id=")
	var ask string
	polltest.Until(t, "the call to ask", func() bool {
		tr := c.tries.of("", id)
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if len(tr.asks) > 0 {
			ask = tr.asks[0].id
		}
		return ask != ""
	})
	if body := (request{path: path}).to(c).Body.String(); !strings.Contains(body, "&lt;b&gt;who") || !strings.Contains(body, `name="a.0"`) || !strings.Contains(body, "sampling") {
		t.Errorf("the question is not shown: %s", body)
	}
	send := func(value string) int {
		return post(t, c, nil, "/ui/try/answer", url.Values{"id": {id}, "ask": {ask}, "do": {"accept"}, "a.0": {value}}).Code
	}
	if send("x"); !strings.Contains((request{path: path}).to(c).Body.String(), "Write a number") {
		t.Error("the mistake is not shown")
	}
	if code := send("5"); code != 303 {
		t.Error(code)
	}
	if got := <-answered; got != `{"action":"accept","content":{"n":5}}` {
		t.Error(got)
	}
	send("6") // the question is gone
	if w := ended(c, nil, path); !strings.Contains(w.Body.String(), "done") {
		t.Errorf("%s", w.Body)
	}
}

// Tries are bounded in number, size and time.
func TestTriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTries()
		defer ts.close()
		wait := func(ctx context.Context, _ *call.Call) (call.Result, error) {
			<-ctx.Done()
			return call.Result{}, ctx.Err()
		}
		var last *try
		for i := range maxRunning + 1 {
			tr := &try{kind: call.Tool, viewpoint: viewpoint{who: call.Anonymous}}
			err := ts.start(tr, tr.call("admin", ""), wait)
			if (err != nil) != (i == maxRunning) {
				t.Fatalf("try %d: %v", i, err)
			}
			if err == nil {
				last = tr
			}
		}
		time.Sleep(tryTime)
		synctest.Wait()
		if last.over == "" || last.ended.IsZero() {
			t.Error("a try runs for ever")
		}
		big := result(`{"content":"` + strings.Repeat("x", maxTryResult-20) + `"}`)
		for range maxTries {
			tr := &try{kind: call.Tool, viewpoint: viewpoint{who: call.Anonymous}}
			if err := ts.start(tr, tr.call("admin", ""), big); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		size := 0
		for _, tr := range ts.all {
			size += len(tr.result)
		}
		if len(ts.all) > maxTries || size > maxTryResults {
			t.Errorf("%d tries with %d bytes are kept", len(ts.all), size)
		}
		time.Sleep(tryLife + time.Second)
		ts.forget(time.Now(), func(string) bool { return true })
		if len(ts.all) != 0 {
			t.Errorf("%d tries are kept for ever", len(ts.all))
		}
	})
}

// Parts of results are shown if their type is harmless, and else only saved.
func TestTryParts(t *testing.T) {
	c := tryConsole(t, Options{}, result(`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"image","data":"aGk=","mimeType":"image/svg+xml"},`+
		`{"type":"audio","data":"aGk=","mimeType":"audio/wav; x=1"},{"type":"resource","resource":{"uri":"a:b","mimeType":"text/html","blob":"aGk="}},{"type":"image","data":"%","mimeType":"image/png"},{"type":"text","text":"<script>"}]}`))
	path := begin(t, c, nil, url.Values{"kind": {"tool"}, "name": {"files__write"}, "do": {"form"}})
	body := ended(c, nil, path).Body.String()
	if strings.Count(body, "<img ") != 2 || strings.Count(body, "<audio ") != 1 || strings.Contains(body, "<script>") {
		t.Errorf("the page is %s", body)
	}
	id := strings.TrimPrefix(path, "/ui/try/run?id=")
	for n, want := range []string{"image/png", "application/octet-stream", "audio/wav", "application/octet-stream"} {
		w := request{path: "/ui/try/part?id=" + id + "&n=" + string(rune('0'+n))}.to(c)
		saved := strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment")
		if h := w.Header(); w.Code != 200 || h.Get("Content-Type") != want || h.Get("X-Content-Type-Options") != "nosniff" || saved != (want == "application/octet-stream") || w.Body.String() != "hi" {
			t.Errorf("part %d: %d %v %s", n, w.Code, h, w.Body)
		}
	}
	for n, code := range map[string]int{"4": 422, "5": 404, "6": 404, "-1": 404, "x": 404} {
		if w := (request{path: "/ui/try/part?id=" + id + "&n=" + n}).to(c); w.Code != code {
			t.Errorf("part %s: %d", n, w.Code)
		}
	}
}

// An app runs without an origin, and reaches what its resource says and nothing of the console.
func TestApps(t *testing.T) {
	app := `{"contents":[{"uri":"ui://a","mimeType":"text/html; profile=\"mcp-app\"","text":"<script>1</script>","_meta":{"ui":{"csp":` +
		`{"connectDomains":["https://api.example.com","http://127.0.0.1:9090","https://x; script-src *","'self'","*"],"resourceDomains":["https://*.cdn.example.com"]}}}}]}`
	c := tryConsole(t, Options{}, result(app))
	path := begin(t, c, nil, url.Values{"kind": {"resource"}, "name": {"ui://files/a"}})
	w := ended(c, nil, path)
	body := w.Body.String()
	for _, want := range []string{"https://api.example.com", "https://*.cdn.example.com", "Refused", "Open the app"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(body, "<iframe") {
		t.Error("the app is open before a person has opened it")
	}
	if body = (request{path: path + "&app=open"}).to(c).Body.String(); !strings.Contains(body, `sandbox="allow-scripts"`) {
		t.Errorf("no frame in %s", body)
	}
	w = request{path: strings.Replace(path, "/run", "/app", 1)}.to(c)
	csp := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"sandbox allow-scripts;", "default-src 'none';", "connect-src https://api.example.com;", "script-src 'unsafe-inline' https://*.cdn.example.com;", "frame-src 'none';"} {
		if !strings.Contains(csp, want) {
			t.Errorf("%q is not in %q", want, csp)
		}
	}
	if strings.Contains(csp, "127.0.0.1") || strings.Contains(csp, "script-src *") || strings.Contains(csp, "allow-same-origin") || strings.Contains(strings.Replace(csp, "frame-ancestors 'self'", "", 1), "'self'") {
		t.Errorf("the policy is %q", csp)
	}
	if w.Body.String() != "<script>1</script>" {
		t.Errorf("the document is %s", w.Body)
	}
}

// Every page of a try escapes the texts of servers.
func TestHostileTry(t *testing.T) {
	bad := wire.String(hostile)
	content := wire.SetMember(wire.Raw(`{"type":"text"}`), "text", bad)
	raw := wire.SetMember(wire.Raw(`{"structuredContent":{"rows":[{"a":1},{"a":2}]},"isError":true}`), "content", wire.Raw("["+string(content)+"]"))
	for name, do := range map[string]func(context.Context, *call.Call) (call.Result, error){
		"a result": func(_ context.Context, c *call.Call) (call.Result, error) {
			c.Back.Notify(wire.NoteMessage, wire.SetMember(wire.SetMember(wire.Raw(`{}`), "data", bad), "level", bad))
			c.Back.Notify(wire.NoteProgress, wire.SetMember(wire.Raw(`{"progress":1}`), "message", bad))
			return call.Result{Raw: raw}, nil
		},
		"an error": func(context.Context, *call.Call) (call.Result, error) {
			return call.Result{}, wire.Errorf(-32000, "%s", hostile).WithData(bad)
		},
	} {
		c := tryConsole(t, Options{}, do)
		for _, path := range []string{"/ui/try?kind=tool&name=files__read", begin(t, c, nil, url.Values{"kind": {"tool"}, "name": {"files__read"}, "do": {"form"}, "f.0": {hostile}})} {
			body := ended(c, nil, path).Body.String()
			for _, forbidden := range []string{"<script>alert", "<img src=x", "\x1b", "\u202e", "\u200b", "\x00"} {
				if strings.Contains(body, forbidden) {
					t.Errorf("%s: %s has %q", name, path, forbidden)
				}
			}
		}
	}
}
