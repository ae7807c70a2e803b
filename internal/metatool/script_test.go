package metatool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/script"
	"mcpgateway/internal/wire"
)

var scriptLimits = script.Limits{Steps: 10_000_000, Calls: 10, Parallel: 4, Time: 2 * time.Minute, Output: 4096}

// scriptFixture is a view with run_script, and a pipeline behind it.
type scriptFixture struct {
	*Tools
	view *catalog.View
	back *notes
	// answer is the rest of the pipeline.
	answer func(context.Context, *call.Call) (call.Result, error)

	mu    sync.Mutex
	inner []string // the params of the inner calls
}

// notes is a back channel that records.
type notes struct {
	mu   sync.Mutex
	sent []string
	ask  func() // runs during an ask
}

func (n *notes) Notify(method string, params wire.Raw) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = append(n.sent, method+" "+string(params))
}

func (n *notes) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	n.ask()
	return wire.Raw(`{"action":"accept"}`), nil
}

func newScriptFixture(t testing.TB, composites ...*script.Composite) *scriptFixture {
	t.Helper()
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "hidden", Effect: policy.Deny, What: policy.What{Tools: []string{"*secret*"}}},
	}})
	selects, err := profile.New(profile.Options{Own: Items(Options{Search: true, Scripts: &scriptLimits, Composites: composites})})
	if err != nil {
		t.Fatal(err)
	}
	table := catalog.Build(catalog.Options{Policy: p, Profile: selects}, []catalog.Source{upstreamOf(t, "files", readTool, appendTool, removeTool, secretTool)})
	f := &scriptFixture{Tools: New(), view: table.View(call.Anonymous, nil), back: &notes{}}
	byName := map[string]*script.Composite{}
	for _, c := range composites {
		byName[c.Name] = c
	}
	f.Scripts = func() *Scripts {
		return &Scripts{Limits: scriptLimits, Composites: map[string]map[string]*script.Composite{"": byName}}
	}
	f.answer = func(_ context.Context, c *call.Call) (call.Result, error) {
		return call.Result{Raw: wire.Raw(`{"content":[{"type":"text","text":"done"}]}`)}, nil
	}
	return f
}

// handle answers the client's call and the calls inside of it.
func (f *scriptFixture) handle(ctx context.Context, c *call.Call) (call.Result, error) {
	name := wire.ValueOf(c.Params).Get("name").Str()
	target, ok := f.view.Resolve(call.Tool, name)
	switch {
	case !ok:
		return call.Result{}, wire.Errorf(wire.CodeInvalidParams, "unknown tool: %q", name)
	case target.Part.Own():
		return f.Call(ctx, c, target, f.view, f.handle)
	}
	f.mu.Lock()
	f.inner = append(f.inner, string(c.Params))
	f.mu.Unlock()
	return f.answer(ctx, c)
}

// run runs a script and returns the text of its result, or the error.
func (f *scriptFixture) run(t testing.TB, source string) string {
	t.Helper()
	return f.send(t, `{"name":"run_script","arguments":{"script":`+string(wire.String(source))+`}}`)
}

func (f *scriptFixture) send(t testing.TB, params string) string {
	t.Helper()
	res, err := f.handle(t.Context(), &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(params), Principal: call.Anonymous, Back: f.back})
	if err != nil {
		return "error: " + err.Error()
	}
	if err := wire.Check(res.Raw, wire.Limits{}, wire.Strict); err != nil {
		t.Fatalf("the result is no JSON: %v: %s", err, res.Raw)
	}
	return textOf(res.Raw)
}

func textOf(raw wire.Raw) string {
	v := wire.ValueOf(raw)
	var parts []string
	if v.Get("isError").Bool() {
		parts = append(parts, "isError")
	}
	for el := range v.Get("content").Elements() {
		parts = append(parts, el.Get("text").Str())
	}
	return strings.Join(parts, " | ")
}

func TestRunScript(t *testing.T) {
	f := newScriptFixture(t)
	for source, want := range map[string]string{
		`print("a")` + "\n" + `call("files__read", {"path": "/x"})`: "a\n | done",
		`{"a": [1]}`:                                    `{"a":[1]}`,
		`x = 1`:                                         "The script printed and returned nothing.",
		`describe("files__read")`:                       "files__read(path: str, lines: int = None)\n    Reads a file.\n    path: Where it is.",
		`call("files__reed")`:                           "isError | The script failed at line 1, column 5: files__reed: there is no tool \"files__reed\". Did you mean files__read?\n    1 | call(\"files__reed\")",
		`call("files__secret")`:                         "isError | The script failed at line 1, column 5: files__secret: there is no tool \"files__secret\".",
		`call("run_script", {"script": "1"})`:           "isError | The script failed at line 1, column 5: run_script: run_script cannot be called from a script.",
		`call("call_tool", {"name": "files__read"})`:    "isError | The script failed at line 1, column 5: call_tool: call_tool cannot be called from a script.",
		`[t["name"] for t in search("read a file")][0]`: `files__read`,
	} {
		if got := f.run(t, source); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", source, got, want)
		}
	}
	if len(f.inner) != 1 || f.inner[0] != `{"name":"files__read","arguments":{"path":"/x"}}` {
		t.Errorf("inner calls: %q", f.inner)
	}
	for params, want := range map[string]string{
		`{"name":"run_script"}`:                                      "isError | run_script needs `script`",
		`{"name":"run_script","arguments":{"script":5}}`:             "isError | run_script needs `script`",
		`{"name":"run_script","arguments":{"script":"1","args":{}}}`: "isError | run_script takes `script` only. Write `args` into the script.",
		`{"name":"run_script","arguments":{"script":"x = "}}`:        "isError | The script failed at line 1",
	} {
		if got := f.send(t, params); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", params, got, want)
		}
	}
}

// A script cannot find, describe or call a tool that the view hides, and is given no hint of it.
func TestScriptsSeeTheViewAlone(t *testing.T) {
	f := newScriptFixture(t)
	for _, source := range []string{
		`search("secret")`, `search("files secret", limit = 100)`, `try_call("files__secret")`, `try_call("files__secre")`,
		`describe("files__read", "files__secret")`, `try_parallel(["files__secret", "secret"])`, `search("", upstream = "files")`,
	} {
		got := f.run(t, source)
		if strings.Contains(strings.ReplaceAll(got, source, ""), "Reads a secret file") || strings.Contains(got, "Did you mean files__secret") {
			t.Errorf("%s: %s", source, got)
		}
	}
	if len(f.inner) > 0 {
		t.Errorf("inner calls: %q", f.inner)
	}
}

// A script finds what its user sees now, also when a reload takes a tool away while it runs.
func TestScriptsSeeTheViewOfNow(t *testing.T) {
	f := newScriptFixture(t)
	now := f.view
	f.View = func(*call.Call) *catalog.View { return now }
	table := catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow})},
		[]catalog.Source{upstreamOf(t, "files", appendTool, `{"name":"fresh","description":"Reads a new file.","inputSchema":{"type":"object"}}`)})
	f.answer = func(context.Context, *call.Call) (call.Result, error) {
		now = table.View(call.Anonymous, nil)
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}
	const names = `print(sorted([t["name"] for t in search("read a file")]))` + "\n"
	got := f.run(t, names+`call("files__append")`+"\n"+names+`describe("files__fresh")`+"\n"+`describe("files__read")`)
	for _, want := range []string{`["files__append", "files__read", "files__remove"]`, `["files__append", "files__fresh"]`, `There is no tool "files__read"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\ndoes not contain %s", got, want)
		}
	}
}

// Each call is progress of the script, and so is the progress of a call.
func TestScriptProgress(t *testing.T) {
	f := newScriptFixture(t)
	f.answer = func(_ context.Context, c *call.Call) (call.Result, error) {
		token := wire.ValueOf(c.Params).Get("_meta", "progressToken")
		if trace := wire.ValueOf(c.Params).Get("_meta", "traceparent").Str(); trace != "00-1" {
			t.Errorf("the inner call has the traceparent %q", trace)
		}
		c.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":`+string(token.Raw())+`,"progress":1,"total":2}`))
		c.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":`+string(token.Raw())+`,"progress":2,"message":"half"}`))
		c.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"script-7","progress":2}`))
		c.Back.Notify(wire.NoteMessage, wire.Raw(`{"level":"info","data":"x"}`))
		if wire.ValueOf(c.Params).Get("name").IsString("files__remove") {
			return call.Result{}, errors.New("down")
		}
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}
	f.send(t, `{"name":"run_script","_meta":{"progressToken":"t","traceparent":"00-1"},"arguments":{"script":"call('files__read', path='x')\ntry_call('files__remove')"}}`)
	want := []string{
		`notifications/progress {"progressToken":"t","progress":0.5,"message":"files__read"}`,
		`notifications/progress {"progressToken":"t","progress":0.501,"message":"files__read: 1 of 2"}`,
		`notifications/progress {"progressToken":"t","progress":0.502,"message":"files__read: half"}`,
		`notifications/message {"level":"info","data":"x"}`,
		`notifications/progress {"progressToken":"t","progress":1,"message":"files__read: done"}`,
		`notifications/progress {"progressToken":"t","progress":1.5,"message":"files__remove"}`,
		`notifications/progress {"progressToken":"t","progress":1.501,"message":"files__remove: 1 of 2"}`,
		`notifications/progress {"progressToken":"t","progress":1.502,"message":"files__remove: half"}`,
		`notifications/message {"level":"info","data":"x"}`,
		`notifications/progress {"progressToken":"t","progress":2,"message":"files__remove: failed"}`,
	}
	if got := strings.Join(f.back.sent, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}
	f.back.sent, f.answer = nil, func(_ context.Context, c *call.Call) (call.Result, error) {
		if wire.ValueOf(c.Params).Get("_meta").Exists() {
			t.Errorf("a call without _meta got %s", c.Params)
		}
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}
	if f.run(t, `call("files__read")`); len(f.back.sent) > 0 {
		t.Errorf("a client without a token got %q", f.back.sent)
	}
}

// The time in which a user is asked does not count.
func TestScriptTimeStandsStillDuringAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScriptFixture(t)
		f.back.ask = func() { time.Sleep(time.Hour) }
		f.answer = func(ctx context.Context, c *call.Call) (call.Result, error) {
			time.Sleep(50 * time.Second)
			if ctx.Err() != nil {
				return call.Result{}, context.Cause(ctx)
			}
			_, err := c.Back.Ask(ctx, wire.MethodElicit, nil)
			return call.Result{Raw: wire.Raw(`{"content":[]}`)}, err
		}
		if got := f.run(t, "call('files__read')\ncall('files__read')\n1"); got != "1" {
			t.Errorf("with 100 s of its own: %s", got)
		}
		if got := f.run(t, "call('files__read')\ncall('files__read')\ncall('files__read')"); !strings.Contains(got, "line 3, column 5: the script took longer than 2m0s") {
			t.Errorf("with 150 s of its own: %s", got)
		}
	})
}

// The client's cancellation ends the script and its calls, without a result.
func TestScriptCancellation(t *testing.T) {
	f := newScriptFixture(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the client has cancelled")
	f.answer = func(ctx context.Context, _ *call.Call) (call.Result, error) {
		cancel(cause)
		<-ctx.Done()
		return call.Result{}, ctx.Err()
	}
	_, err := f.handle(ctx, &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"run_script","arguments":{"script":"while True: try_call('files__read')"}}`), Principal: call.Anonymous, Back: f.back})
	if err != cause || len(f.inner) != 1 {
		t.Errorf("got %v after %d calls", err, len(f.inner))
	}
}

// The memory of all scripts is bounded, and given back.
func TestScriptMemoryIsShared(t *testing.T) {
	f := newScriptFixture(t)
	const large = "x = 'a' * (100 << 20)\ncall('files__read')\n1"
	begin, wait := make(chan struct{}), make(chan struct{})
	f.answer = func(context.Context, *call.Call) (call.Result, error) {
		begin <- struct{}{}
		<-wait
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}
	results := make(chan string)
	for range 2 {
		go func() { results <- f.run(t, large) }()
		<-begin
	}
	if got := f.run(t, large); !strings.Contains(got, "other scripts use the memory for scripts now") {
		t.Errorf("a third large script: %s", got)
	}
	close(wait)
	for range 2 {
		if got := <-results; got != "1" {
			t.Errorf("a large script: %s", got)
		}
	}
	if n := f.scripts.memory.Held(); n != 0 {
		t.Errorf("%d bytes are held after the scripts", n)
	}
}

func TestComposite(t *testing.T) {
	c, err := script.LoadComposite("both.star", `
name = "read_both"
description = "Reads two files."
input_schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]}
output_schema = {"type": "object", "properties": {"texts": {"type": "array", "maxItems": 2}}}
def run(a, b):
    return {"texts": parallel([("files__read", {"path": p}) for p in ([a, b] if b else [a, a, a])])}
`, Clock{})
	if err != nil {
		t.Fatal(err)
	}
	f := newScriptFixture(t, c)
	const want = `{"content":[{"type":"text","text":"{\"texts\":[\"done\",\"done\"]}"}],"structuredContent":{"texts":["done","done"]}}`
	for _, params := range []string{
		`{"name":"read_both","arguments":{"a":"x","b":"y"}}`,
		`{"name":"call_tool","arguments":{"name":"read_both","arguments":{"a":"x","b":"y"}}}`,
	} {
		res, err := f.handle(t.Context(), &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(params), Principal: call.Anonymous, Back: f.back})
		if err != nil || string(res.Raw) != want {
			t.Errorf("%s: got %s, %v", params, res.Raw, err)
		}
	}
	if got := f.run(t, `call("read_both", a = "x", b = "y")["texts"]`); got != `["done","done"]` {
		t.Errorf("from a script: %s", got)
	}
	if got := f.run(t, `[t["name"] for t in search("two files")][0]`); got != "read_both" {
		t.Errorf("found %s", got)
	}
	if got := f.send(t, `{"name":"read_both","arguments":{"a":"x","b":""}}`); !strings.Contains(got, "read_both: the returned value does not match output_schema") {
		t.Errorf("with a wrong value: %s", got)
	}
	if got := f.send(t, `{"name":"read_both","arguments":{"a":"x"}}`); !strings.Contains(got, "isError") || !strings.Contains(got, "b") {
		t.Errorf("without an argument: %s", got)
	}
}

// The caller of a tool that a file defines learns what the file or a tool says of a failure, and nothing of
// how it is made. The log gets the place in the file.
func TestCompositeFails(t *testing.T) {
	c, err := script.LoadComposite("odd.star", `
name = "odd"
description = "Fails."
input_schema = {"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]}
def run(how):
    if how == "fail":
        print("printed")
        fail("the issue is closed")
    if how == "mistake":
        return {}[how]
    return call(how, {"path": "x"})
`, Clock{})
	if err != nil {
		t.Fatal(err)
	}
	f := newScriptFixture(t, c)
	var places []int
	f.CompositeFailed = func(_ *call.Call, tool string, at *script.Failure) {
		if tool != "odd" {
			t.Errorf("%s failed", tool)
		}
		places = append(places, at.Line)
	}
	for how, want := range map[string]string{
		"fail":          "odd failed: the issue is closed",
		"mistake":       "odd failed. The gateway's log has the reason at the request ID 7.",
		"files__secret": "odd failed: it needs a tool that you do not have",
		"files__raed":   "odd failed: it needs a tool that you do not have",
	} {
		res, err := f.handle(t.Context(), &call.Call{ID: "7", Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"odd","arguments":{"how":"` + how + `"}}`), Principal: call.Anonymous, Back: f.back})
		if want := `{"content":[{"type":"text","text":"` + want + `"}],"isError":true}`; err != nil || string(res.Raw) != want {
			t.Errorf("%s: got %s, %v, want %s", how, res.Raw, err, want)
		}
	}
	if slices.Sort(places); !slices.Equal(places, []int{8, 10, 11, 11}) {
		t.Errorf("it failed at lines %d", places)
	}
}
