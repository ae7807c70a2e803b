package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// draftRouter is a router whose upstream has a folder of resources.
func draftRouter(t *testing.T, enrich bool, answer func(method, params string) (string, error)) (*testRouter, *[]string) {
	var sent []string
	files := &fakeUpstream{answer: func(_ context.Context, c *call.Call) (call.Result, error) {
		sent = append(sent, c.Method+" "+string(c.Params))
		raw, err := answer(c.Method, string(c.Params))
		return call.Result{Raw: wire.Raw(raw), Revision: wire.Rev20251125}, err
	}}
	src := filesSource(t)
	src.Items[call.Resource] = []wire.Raw{
		wire.Raw(`{"name":"d","uri":"file:///d","mimeType":"inode/directory"}`),
		wire.Raw(`{"name":"a","uri":"file:///d/a","title":"A"}`),
		wire.Raw(`{"name":"secret","uri":"file:///d/secret"}`),
	}
	h := newTestRouter(t, files, src)
	p := policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{"files": {Resources: policy.Globs{Deny: []string{"*secret"}}}}})
	h.Swap(&Routes{
		Table:     catalog.Build(catalog.Options{Policy: p, Enrich: enrich}, []catalog.Source{src}),
		Upstreams: map[string]Upstream{"files": files},
	})
	close(h.started)
	return h, &sent
}

func (h *testRouter) ask(method, params string, rev wire.Revision) string {
	c := newCall(method, params, &recorder{})
	c.Client = &call.Client{Key: "c", Revision: rev}
	c.TakesRounds = rev.Era() == wire.EraModern
	res, err := h.Handle(context.Background(), c)
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		return string(rpc.Append(nil))
	}
	return string(res.Raw)
}

func refuses(code int64) func(string, string) (string, error) {
	return func(string, string) (string, error) {
		raw := fmt.Sprintf(`{"code":%d,"message":"no","data":{"uri":"file:///d/a"}}`, code)
		return "", &wire.Error{Code: code, Message: "no", Data: wire.Raw(`{"uri":"file:///d/a"}`), Raw: wire.Raw(raw)}
	}
}

// reads returns an upstream that answers reads, and uses other for all other requests.
func reads(other func(string, string) (string, error)) func(string, string) (string, error) {
	return func(method, params string) (string, error) {
		if method == wire.MethodResourcesRead {
			return `{"contents":[{"uri":"file:///b","text":""}]}`, nil
		}
		return other(method, params)
	}
}

const metadataOfA = `{"resource":{"name":"a","uri":"files+file:///d/a","title":"A"}}`

func TestSourceOfMetadata(t *testing.T) {
	const own = `{"resource":{"uri":"file:///d/a","name":"theirs","size":7,"capabilities":{"list":true},"x":1e2}}`
	for _, tc := range []struct {
		name   string
		answer func(method, params string) (string, error)
		uri    string
		want   string
	}{
		{"the upstream has metadata", func(string, string) (string, error) { return own, nil }, "files+file:///d/a", `{"resource":{"uri":"files+file:///d/a","name":"theirs","size":7,"capabilities":{"list":true},"x":1e2}}`},
		{"the upstream does not know the method", refuses(-32601), "files+file:///d/a", metadataOfA},
		{"neither knows", refuses(-32601), "files+other:1", `{"code":-32002,"message":"resource not found: \"files+other:1\"","data":{"uri":"files+other:1"}}`},
		{"by template", refuses(-32601), "files+file:///b", `{"resource":{"name":"any","uri":"files+file:///b"}}`},
		{"the error of the Python SDK", refuses(-32602), "files+file:///d/a", metadataOfA},
		{"the error of the Python SDK, by template", reads(refuses(-32602)), "files+file:///b", `{"resource":{"name":"any","uri":"files+file:///b"}}`},
		{"the resource is missing", refuses(-32002), "files+file:///d/a", `{"code":-32002,"message":"no","data":{"uri":"files+file:///d/a"}}`},
		{"an unusual error for a listed resource", refuses(-32000), "files+file:///d/a", metadataOfA},
		{"an unusual error for an unlisted resource", refuses(-32000), "files+file:///b", `{"code":-32000,"message":"no","data":{"uri":"files+file:///d/a"}}`},
		{"an empty answer", func(string, string) (string, error) { return `{}`, nil }, "files+file:///d/a", metadataOfA},
		{"the upstream is down", func(string, string) (string, error) { return "", wire.Errorf(wire.CodeInternal, "down") }, "files+file:///d/a", `{"code":-32603,"message":"down"}`},
		{"hidden", func(string, string) (string, error) { return own, nil }, "files+file:///d/secret", `{"code":-32002,"message":"resource not found: \"files+file:///d/secret\"","data":{"uri":"files+file:///d/secret"}}`},
		{"a native URI", func(string, string) (string, error) { return own, nil }, "file:///d/a", `{"code":-32002,"message":"resource not found: \"file:///d/a\"; did you mean files+file:///d/a?","data":{"uri":"file:///d/a"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, _ := draftRouter(t, true, tc.answer)
			if got := h.ask("resources/metadata", `{"uri":"`+tc.uri+`"}`, wire.Rev20251125); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
	h, _ := draftRouter(t, true, refuses(-32601))
	if got := h.ask("resources/metadata", `{}`, wire.Rev20251125); got != `{"code":-32602,"message":"resources/metadata: params.uri must be a string"}` {
		t.Errorf("without a URI: %s", got)
	}
	if got := h.ask("resources/metadata", `{"uri":"files+other:1"}`, wire.Rev20260728); got != `{"code":-32602,"message":"resource not found: \"files+other:1\"","data":{"uri":"files+other:1"}}` {
		t.Errorf("to a modern client: %s", got)
	}
	if got := h.ask("resources/metadata", `{"uri":"files+file:///d/a"}`, wire.Rev20260728); got != `{"resultType":"complete","ttlMs":0,"cacheScope":"public",`+metadataOfA[1:] {
		t.Errorf("to a modern client: %s", got)
	}
}

func TestListOfCollection(t *testing.T) {
	const own = `{"x":1.0,"resources":[{"uri":"file:///d/new","name":"n","capabilities":{}},{"uri":"file:///d/secret","name":"s"},{"uri":"file:///d/a","name":"a"},{"uri":"file:///d/nameless"}],"nextCursor":"theirs"}`
	const public = `{"x":1.0,"resources":[{"uri":"files+file:///d/new","name":"n","capabilities":{}},{"uri":"files+file:///d/a","name":"a"}],"nextCursor":"theirs"}`
	known := false
	knows := func(method, _ string) (string, error) {
		if method == wire.MethodResourcesMetadata {
			known = true
			return `{"resource":{"uri":"file:///d"}}`, nil
		}
		if !known {
			return "", wire.Errorf(wire.CodeMethodNotFound, "no")
		}
		return own, nil
	}
	const (
		list, meta = `resources/list {"uri":"file:///d","cursor":"c"}`, `resources/metadata {"uri":"file:///d"}`
		fromTable  = `{"resources":[{"name":"a","uri":"files+file:///d/a","title":"A"}]}`
	)
	for _, tc := range []struct {
		name, params string
		answer       func(method, params string) (string, error)
		sent         []string
		want         string
	}{
		{"the upstream lists, after its metadata shows that it can", `{"uri":"files+file:///d","cursor":"c"}`, knows, []string{list, meta, list}, public},
		{"the next request goes to the upstream at once", `{"uri":"files+file:///d","cursor":"c"}`, knows, []string{list}, public},
		{"the catalog", `{"uri":"files+file:///d"}`, refuses(-32601), nil, fromTable},
		{"the catalog, with a slash", `{"uri":"files+file:///d/"}`, refuses(-32601), nil, fromTable},
		{"a document has no children", `{"uri":"files+file:///d/a"}`, refuses(-32601), nil, `{"resources":[]}`},
		{"the root", `{"uri":"files+file:///"}`, refuses(-32601), nil, `{"resources":[{"name":"d","uri":"files+file:///d","mimeType":"inode/directory","resourceType":"collection"}]}`},
		{"no upstream lists it", `{"uri":"files+file:///x/y/"}`, refuses(-32601), nil, `{"code":-32002,"message":"resource not found: \"files+file:///x/y/\"; did you mean files+file:///d/a?","data":{"uri":"files+file:///x/y/"}}`},
		{"no upstream has the prefix", `{"uri":"x:"}`, refuses(-32601), []string{}, `{"code":-32002,"message":"resource not found: \"x:\"","data":{"uri":"x:"}}`},
		{"hidden", `{"uri":"files+file:///d/secret"}`, refuses(-32601), []string{}, `{"code":-32002,"message":"resource not found: \"files+file:///d/secret\"","data":{"uri":"files+file:///d/secret"}}`},
		{"the upstream answers that it is missing", `{"uri":"files+file:///d"}`, func(method, params string) (string, error) {
			if method == wire.MethodResourcesList {
				return "", wire.Errorf(wire.CodeMethodNotFound, "no")
			}
			return refuses(-32002)(method, params)
		}, nil, `{"code":-32002,"message":"no","data":{"uri":"files+file:///d/a"}}`},
		{"no string", `{"uri":7}`, refuses(-32601), []string{}, `{"code":-32602,"message":"resources/list: params.uri must be a string"}`},
		{"an invalid cursor", `{"uri":"files+file:///d","cursor":7}`, refuses(-32601), []string{}, `{"code":-32602,"message":"invalid params: cursor must be a string, the nextCursor of the page before"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, sent := draftRouter(t, true, tc.answer)
			if got := h.ask("resources/list", tc.params, wire.Rev20251125); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if tc.sent != nil && !slices.Equal(*sent, tc.sent) {
				t.Errorf("the upstream got %q, want %q", *sent, tc.sent)
			}
		})
	}
}

func TestReadIsEnriched(t *testing.T) {
	const read = `{"contents":[{"uri":"file:///d","text":""},{"uri":"file:///d/secret","text":"s"},{"uri":"file:///d/a","text":"1"}]}`
	for enrich, want := range map[bool]string{
		true:  `{"contents":[{"uri":"files+file:///d","text":"","name":"d","size":0,"resourceType":"collection"},{"uri":"files+file:///d/a","text":"1","name":"a","title":"A","size":1}]}`,
		false: `{"contents":[{"uri":"files+file:///d","text":""},{"uri":"files+file:///d/a","text":"1"}]}`,
	} {
		h, _ := draftRouter(t, enrich, func(string, string) (string, error) { return read, nil })
		for _, rev := range []wire.Revision{wire.Rev20241105, wire.Rev20251125, wire.Rev20260728} {
			if got := h.ask("resources/read", `{"uri":"files+file:///d"}`, rev); got != want {
				t.Errorf("%v, %s: got\n%s\nwant\n%s", enrich, rev, got, want)
			}
		}
	}
}

// Annotations of embedded resources are in both places, in results and in questions.
func TestEmbeddedAnnotations(t *testing.T) {
	const block = `{"type":"resource","resource":{"uri":"file:///d/a","text":"1","annotations":{"priority":1}}}`
	const both = `{"type":"resource","resource":{"uri":"files+file:///d/a","text":"1","annotations":{"priority":1}},"annotations":{"priority":1}}`
	const moved = `{"type":"resource","resource":{"uri":"files+file:///d/a","text":"1","annotations":{"priority":1}}}`
	for enrich, want := range map[bool]string{true: both, false: moved} {
		var asked string
		h, _ := draftRouter(t, enrich, func(method, _ string) (string, error) {
			if method == wire.MethodPromptsGet {
				return `{"messages":[{"role":"user","content":` + block + `}]}`, nil
			}
			return `{"content":[` + block + `]}`, nil
		})
		if got := h.ask("tools/call", `{"name":"files__read"}`, wire.Rev20251125); got != `{"content":[`+want+`]}` {
			t.Errorf("%v: a tool gives %s", enrich, got)
		}
		if got := h.ask("prompts/get", `{"name":"files__explain"}`, wire.Rev20251125); got != `{"messages":[{"role":"user","content":`+want+`}]}` {
			t.Errorf("%v: a prompt gives %s", enrich, got)
		}
		h.files.answer = func(ctx context.Context, c *call.Call) (call.Result, error) {
			_, err := c.Back.Ask(ctx, wire.MethodSample, wire.Raw(`{"messages":[{"role":"user","content":`+block+`}]}`))
			return call.Result{Raw: wire.Raw(`{"content":[]}`)}, err
		}
		back := &recorder{}
		c := newCall("tools/call", `{"name":"files__read"}`, back)
		c.Client = &call.Client{Key: "c", Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"sampling":{}}`)}
		if _, err := h.Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		for _, a := range back.asks {
			asked += a
		}
		if want := wire.MethodSample + ` {"messages":[{"role":"user","content":` + want + `}]}`; asked != want {
			t.Errorf("%v: a question: got\n%s\nwant\n%s", enrich, asked, want)
		}
	}
}

// A call that waits for an upstream uses the lists that arrive meanwhile.
func TestUpstreamComesUpDuringTheCall(t *testing.T) {
	for method, want := range map[string]string{
		"resources/metadata": metadataOfA,
		"resources/read":     `{"contents":[{"uri":"files+file:///d/a","text":"1","name":"a","title":"A","size":1}]}`,
	} {
		h, _ := draftRouter(t, true, nil)
		up := h.Routes()
		h.files.answer = func(context.Context, *call.Call) (call.Result, error) {
			h.Swap(up)
			if method == "resources/metadata" {
				return call.Result{}, wire.Errorf(wire.CodeMethodNotFound, "no")
			}
			return call.Result{Raw: wire.Raw(`{"contents":[{"uri":"file:///d/a","text":"1"}]}`), Revision: wire.Rev20251125}, nil
		}
		down := source(t, "files", &catalog.Down{Reason: "down"})
		p := policy.MustNew(policy.Options{Default: policy.Allow})
		h.Swap(&Routes{Table: catalog.Build(catalog.Options{Policy: p, Enrich: true}, []catalog.Source{down}), Upstreams: up.Upstreams})
		if got := h.ask(method, `{"uri":"files+file:///d/a"}`, wire.Rev20251125); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", method, got, want)
		}
	}
}
