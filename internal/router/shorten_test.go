package router

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/results"
	"mcpgateway/internal/wire"
)

var allowAll = policy.Rule{Name: "all", Effect: policy.Allow}

// withResults returns a router whose default profile has rules about results.
func withResults(t *testing.T, h *testRouter, rules ResultRules) (*testRouter, *results.Memory) {
	t.Helper()
	store := results.NewMemory(results.Limits{TTL: time.Hour, Total: 1 << 20, PerOwner: 1 << 20}, nil)
	t.Cleanup(store.Close)
	h.results = store
	routes := *h.Routes()
	routes.Results = map[string]ResultRules{"": rules, "whole": {}}
	routes.Profiles = map[string]*catalog.Table{"whole": routes.Table, "other": routes.Table}
	h.Swap(&routes)
	return h, store
}

// kept returns the document of the link in a result.
func kept(t *testing.T, store results.Store, who *call.Principal, res wire.Raw) *results.Document {
	t.Helper()
	for el := range wire.ValueOf(res).Get("content").Elements() {
		if id, _, ok := results.ParseURI(el.Get("uri").Str()); ok {
			d, err := store.Get(context.Background(), ownerOf(who), id)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	return nil
}

func TestLongResultsAreShortened(t *testing.T) {
	long := strings.Repeat("words and ", 1000)
	answer := `{"content":[{"type":"text","text":"` + long + `"}],"isError":true}`
	h, store := withResults(t, routerWithRules(t, answers(answer), filesSource(t), allowAll), ResultRules{Max: 4096, TTL: time.Hour})
	c := newCall("tools/call", `{"name":"files__read"}`, &recorder{})
	res, err := h.Handle(t.Context(), c)
	if err != nil || len(res.Raw) > 6000 || !wire.ValueOf(res.Raw).Get("isError").Bool() || !strings.Contains(string(res.Raw), `"name":"result of files__read"`) {
		t.Fatalf("%v\n%s", err, res.Raw)
	}
	if d := kept(t, store, c.Principal, res.Raw); d == nil || string(d.Text) != long {
		t.Error("the whole text is not kept")
	}
	if n := testutil.ToFloat64(h.metrics.shortened.WithLabelValues("default", "kept")); n != 1 {
		t.Errorf("%v results are counted", n)
	}

	old := *c
	old.Client = &call.Client{Key: "c", Revision: wire.Rev20250326}
	res, err = h.Handle(t.Context(), &old)
	if err != nil || strings.Contains(string(res.Raw), "resource_link") || strings.Count(string(res.Raw), `URI: gateway+result://`) != 1 {
		t.Errorf("a client that knows no links: %v\n%s", err, res.Raw)
	}

	for _, profile := range []string{"whole", "other"} {
		d := *c
		d.Principal = c.Principal.In(profile)
		if res, err = h.Handle(t.Context(), &d); err != nil || string(res.Raw) != answer {
			t.Errorf("profile %s: %v\n%s", profile, err, res.Raw)
		}
	}
	for _, params := range []string{`{"uri":"files+file:///a"}`} {
		read := newCall("resources/read", params, &recorder{})
		if res, err = h.Handle(t.Context(), read); err != nil || kept(t, store, c.Principal, res.Raw) != nil {
			t.Errorf("a resource: %v\n%s", err, res.Raw)
		}
	}
}

// A result that cannot be kept is sent whole.
func TestResultsThatCannotBeKept(t *testing.T) {
	answer := `{"content":[{"type":"text","text":"` + strings.Repeat("words and ", 200_000) + `"}]}`
	h, _ := withResults(t, routerWithRules(t, answers(answer), filesSource(t), allowAll), ResultRules{Max: 4096, TTL: time.Hour})
	res, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
	if err != nil || string(res.Raw) != answer || testutil.ToFloat64(h.metrics.shortened.WithLabelValues("default", "too_large")) != 1 {
		t.Errorf("%v, %d bytes", err, len(res.Raw))
	}
	h.results = failingStore{}
	res, err = h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
	if err != nil || string(res.Raw) != answer || testutil.ToFloat64(h.metrics.shortened.WithLabelValues("default", "failed")) != 1 {
		t.Errorf("%v, %d bytes", err, len(res.Raw))
	}
}

// failingStore keeps nothing.
type failingStore struct{ results.Store }

func (failingStore) Put(context.Context, results.Owner, *results.Document) (string, error) {
	return "", errors.New("no connection")
}

// Own tools work with whole results. What they return in the end is shortened, but not parts of a
// result that were asked for.
func TestResultsOfOwnToolsAreShortenedOnce(t *testing.T) {
	long := strings.Repeat("words and ", 1000)
	up := answers(`{"content":[{"type":"text","text":"` + long + `"}]}`)
	var inside wire.Raw
	h := routerWithOwn(t, up, func(ctx context.Context, c *call.Call, target catalog.Target, view *catalog.View, inner inner) (call.Result, error) {
		res, err := through(ctx, c, target, view, inner)
		inside = bytes.Clone(res.Raw)
		return res, err
	}, allowRead)
	h, store := withResults(t, h, ResultRules{Max: 4096, TTL: time.Hour})
	c := newCall("tools/call", `{"name":"through","arguments":{"name":"files__read"}}`, &recorder{})
	for _, rev := range []wire.Revision{wire.Rev20250326, wire.Rev20260728} {
		c.Client = &call.Client{Key: "c", Revision: rev}
		res, err := h.Handle(t.Context(), c)
		if err != nil || !strings.Contains(string(inside), long) || len(res.Raw) > 6000 || !strings.Contains(string(res.Raw), "gateway+result://") {
			t.Errorf("%v\ninside: %.100s\n%s", err, inside, res.Raw)
		}
		if d := kept(t, store, c.Principal, res.Raw); rev == wire.Rev20260728 && string(d.Text) != long {
			t.Error("the whole text is not kept")
		}
		if old := strings.Contains(string(res.Raw), "resource_link"); old != (rev == wire.Rev20260728) {
			t.Errorf("%s: %s", rev, res.Raw)
		}
	}
}

// A kept result of an own tool is bound to the tools that it used, called by any way, and to none
// that did not reach its upstream.
func TestKeptResultsOfOwnToolsNameWhatTheyUsed(t *testing.T) {
	long := strings.Repeat("words and ", 1000)
	up := answers(`{"content":[{"type":"text","text":"` + long + `"}]}`)
	each := func(ctx context.Context, c *call.Call, target catalog.Target, _ *catalog.View, inner inner) (call.Result, error) {
		var res call.Result
		for el := range wire.ValueOf(c.Params).Get("arguments", "calls").Elements() {
			if r, err := inner(ctx, c.With(el.Raw())); err == nil {
				res = r
			}
		}
		return res, nil
	}
	h := routerWithOwn(t, up, each, policy.Rule{Name: "files", Effect: policy.Allow, What: policy.What{Tools: []string{"files__*"}}})
	h, store := withResults(t, h, ResultRules{Max: 4096, TTL: time.Hour})
	read := results.Item{Kind: wire.ItemTool, Upstream: "files", Name: "files__read", Native: "read"}
	remove := results.Item{Kind: wire.ItemTool, Upstream: "files", Name: "files__remove", Native: "remove"}
	for _, tt := range []struct {
		params string
		want   []results.Item
	}{
		{`{"name":"files__read"}`, []results.Item{read}},
		{`{"name":"through","arguments":{"calls":[{"name":"files__read"}]}}`, []results.Item{read}},
		{`{"name":"through","arguments":{"calls":[{"name":"files__remove"},{"name":"files__read"},{"name":"files__read"},{"name":"nothing"}]}}`, []results.Item{read, remove}},
		{`{"name":"through","arguments":{"calls":[{"name":"files__read"},{"name":"files__remove","arguments":[]}]}}`, []results.Item{read}},
		{`{"name":"through","arguments":{"calls":[{"name":"whole","arguments":{"calls":[{"name":"files__remove"}]}},{"name":"files__read"}]}}`, []results.Item{read, remove}},
	} {
		c := newCall("tools/call", tt.params, &recorder{})
		res, err := h.Handle(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if d := kept(t, store, c.Principal, res.Raw); d == nil {
			t.Errorf("%s: nothing is kept", tt.params)
		} else if !slices.Equal(d.Items, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.params, d.Items, tt.want)
		}
	}
}

// An own resource that does not exist looks like any other.
func TestUnknownOwnResources(t *testing.T) {
	h := routerWithOwn(t, answers(`{}`), func(context.Context, *call.Call, catalog.Target, *catalog.View, inner) (call.Result, error) {
		return call.Result{}, call.ErrNoItem
	})
	for _, rev := range []wire.Revision{wire.Rev20251125, wire.Rev20260728} {
		said := func(uri string) string {
			c := newCall("resources/read", `{"uri":"`+uri+`"}`, &recorder{})
			c.Client = &call.Client{Key: "c", Revision: rev}
			_, err := h.Handle(t.Context(), c)
			return strings.ReplaceAll(fullText(call.Result{}, err), uri, "URI")
		}
		if own, other := said("kept://1"), said("nowhere://1"); own != other || !strings.Contains(own, "resource not found") {
			t.Errorf("%s:\n%s\n%s", rev, own, other)
		}
	}
}

func TestStructuredContentStaysForClientsThatValidate(t *testing.T) {
	long := strings.Repeat("x", 5000)
	structured := `{"structuredContent":{"a":"` + long + `"},"content":[]}`
	list := `{"structuredContent":["` + long + `"],"content":[]}`
	for _, tt := range []struct {
		name, schema, answer string
		rev                  wire.Revision
		cut                  bool
		whole                bool
	}{
		{"schema", `,"outputSchema":{"type":"object"}`, structured, wire.Rev20250618, false, true},
		{"schema, modern", `,"outputSchema":{"type":"object"}`, structured, wire.Rev20260728, false, true},
		{"no schema", ``, structured, wire.Rev20250618, false, false},
		{"an older client", `,"outputSchema":{"type":"object"}`, structured, wire.Rev20250326, false, false},
		{"cut", `,"outputSchema":{"type":"object"}`, structured, wire.Rev20250618, true, false},
		{"list", `,"outputSchema":{"type":"array"}`, list, wire.Rev20260728, false, true},
		{"list, legacy", `,"outputSchema":{"type":"array"}`, list, wire.Rev20251125, false, false},
	} {
		src := filesSource(t)
		src.Items[call.Tool] = []wire.Raw{wire.Raw(`{"name":"read","inputSchema":{"type":"object"}` + tt.schema + `}`)}
		h, _ := withResults(t, routerWithRules(t, answers(tt.answer), src, allowAll), ResultRules{Max: 4096, TTL: time.Hour, CutStructured: tt.cut})
		c := newCall("tools/call", `{"name":"files__read"}`, &recorder{})
		c.Client = &call.Client{Key: "c", Revision: tt.rev}
		res, err := h.Handle(t.Context(), c)
		if err != nil || strings.Contains(string(res.Raw), long) != tt.whole {
			t.Errorf("%s: %v\n%.300s", tt.name, err, res.Raw)
		}
	}
}

func TestImagesAreScaled(t *testing.T) {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 400, 100))); err != nil {
		t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString(file.Bytes())
	answer := `{"content":[{"type":"image","data":"` + data + `","mimeType":"image/x","annotations":{}},{"type":"image","data":"no image"},{"type":"image"},{"type":"text","text":"image"}]}`
	h, _ := withResults(t, routerWithRules(t, answers(answer), filesSource(t), allowAll), ResultRules{ImageSide: 200})
	res, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
	if err != nil {
		t.Fatal(err)
	}
	block := wire.Value{}
	for block = range wire.ValueOf(res.Raw).Get("content").Elements() {
		break
	}
	scaled, err := base64.StdEncoding.DecodeString(block.Get("data").Str())
	if err != nil {
		t.Fatal(err)
	}
	m, err := png.DecodeConfig(bytes.NewReader(scaled))
	if err != nil || m.Width != 200 || m.Height != 50 || block.Get("mimeType").Str() != "image/png" || !block.Get("annotations").Exists() {
		t.Errorf("%v, %v, %s", m, err, block.Raw())
	}
	if !strings.HasSuffix(string(res.Raw), `,{"type":"image","data":"no image"},{"type":"image"},{"type":"text","text":"image"}]}`) {
		t.Errorf("other blocks are not what they were: %s", res.Raw)
	}
	if n := testutil.ToFloat64(h.metrics.scaled.WithLabelValues("default")); n != 1 {
		t.Errorf("%v images are counted", n)
	}
}

// A profile without rules costs nothing, also beside one that has some.
func TestShortResultsAllocateNothing(t *testing.T) {
	raw := wire.Raw(`{"content":[{"type":"text","text":"short"}]}`)
	for name, rules := range map[string]map[string]ResultRules{"no rules": nil, "rules of another profile": {"p": {Max: 4096}}, "short": {"": {Max: 4096, ImageSide: 100}}} {
		h, _ := withResults(t, routerWithRules(t, answers(`{}`), filesSource(t), allowAll), ResultRules{})
		f := h.newForwarding(newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
		if err := f.find(t.Context(), namespace.ItemRef{Kind: call.Tool, Name: "files__read"}); err != nil {
			t.Fatal(err)
		}
		routes := *h.Routes()
		routes.Results = rules
		f.routes = &routes
		if n := testing.AllocsPerRun(100, func() {
			if got, err := f.shorten(raw); err != nil || !sameBytes(got, raw) {
				t.Fatal("it is not what it was")
			}
		}); n != 0 && (name != "short" || n > 1) {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The result of a task is shortened like that of a call. It is kept once, however often the client
// asks for it.
func TestLongResultsOfTasksAreShortened(t *testing.T) {
	long := strings.Repeat("words and ", 1000)
	modern := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
		"tools/call": `{"resultType":"task","taskId":"n1","status":"working"}`,
		"tasks/get":  `{"taskId":"n1","status":"completed","result":{"content":[{"type":"text","text":"` + long + `"}]}}`,
	}}
	legacy := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
		"tools/call":   `{"task":{"taskId":"n1","status":"working"}}`,
		"tasks/result": `{"content":[{"type":"text","text":"` + long + `"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"n1"}}}`,
	}}
	for _, tt := range []struct {
		router   *Router
		rev      wire.Revision
		declared string
		method   string
		path     []string // of the id and of the result
	}{
		{routerWithTasks(t, modern, modernTasks, anyTool), wire.Rev20260728, tasksDeclared, "tasks/get", []string{"taskId"}},
		{routerWithTasks(t, legacy, legacyTasks, anyTool), wire.Rev20251125, `{}`, "tasks/result", []string{"task", "taskId"}},
	} {
		_, store := withResults(t, &testRouter{Router: tt.router}, ResultRules{Max: 4096, TTL: time.Hour})
		created := ask(t, tt.router, tt.rev, tt.declared, "ann", "tools/call", `{"name":"files__read","task":{}}`)
		params := `{"taskId":"` + wire.ValueOf(wire.Raw(created)).Get(tt.path...).Str() + `"}`
		first := ask(t, tt.router, tt.rev, tt.declared, "ann", tt.method, params)
		if len(first) > 6000 || !strings.Contains(first, `"name":"result of files__read"`) || !strings.Contains(first, `"taskId":`) || wire.Check([]byte(first), wire.Limits{}, wire.Strict) != nil {
			t.Errorf("%s: %s", tt.method, first)
		}
		if again := ask(t, tt.router, tt.rev, tt.declared, "ann", tt.method, params); again != first {
			t.Errorf("%s again: %s", tt.method, again)
		}
		result := wire.ValueOf(wire.Raw(first))
		if inside := result.Get("result"); inside.Exists() {
			result = inside
		}
		d := kept(t, store, &call.Principal{Subject: "ann", AuthMethod: "jwt"}, result.Raw())
		if d == nil || !slices.Equal(d.Items, []results.Item{{Kind: wire.ItemTool, Upstream: "files", Name: "files__read", Native: "read"}}) {
			t.Errorf("%s: what is kept is not bound to the tool: %s", tt.method, first)
		}
	}
}
