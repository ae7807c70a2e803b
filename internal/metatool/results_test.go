package metatool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/results"
	"mcpgateway/internal/wire"
)

// keptText has a text kept for a principal, as a result that was too long, and returns its URI.
func (f *fixture) keptText(t *testing.T, who *call.Principal, texts ...string) string {
	t.Helper()
	var blocks []string
	for _, text := range texts {
		blocks = append(blocks, `{"type":"text","text":`+string(wire.String(text))+`}`)
	}
	s := results.Shorten(wire.ValueOf(wire.Raw(`{"content":[`+strings.Join(blocks, ",")+`]}`)), 10, false)
	id, err := f.Results.Store.Put(t.Context(), results.Owner{Identity: who.Identity(), Profile: who.Profile}, s.Document)
	if err != nil {
		t.Fatal(err)
	}
	return results.Scheme + "//" + id
}

func newResultsFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, Options{Results: true})
	store := results.NewMemory(results.Limits{TTL: time.Hour, Total: 1 << 20, PerOwner: 1 << 20}, nil)
	t.Cleanup(store.Close)
	f.Results = &Results{Store: store, Max: func(string) int { return 100 }}
	return f
}

// readURI reads a resource, and returns its contents as text, or the error.
func (f *fixture) readURI(t *testing.T, who *call.Principal, uri string) string {
	t.Helper()
	target, ok := f.view.Resolve(call.Resource, uri)
	if !ok || !target.Part.Own() {
		t.Fatalf("%s is not the gateway's own", uri)
	}
	c := &call.Call{Method: wire.MethodResourcesRead, Params: wire.Raw(`{"uri":` + string(wire.String(uri)) + `}`), Principal: who}
	res, err := f.Call(t.Context(), c, target, f.view, nil)
	if err != nil {
		return "error: " + err.Error()
	}
	if err := wire.Check(res.Raw, wire.Limits{}, wire.Strict); err != nil {
		t.Fatal(err)
	}
	var out []string
	for el := range wire.ValueOf(res.Raw).Get("contents").Elements() {
		text := el.Get("text").Str() + el.Get("blob").Str()
		if el.Get("uri").Str() != uri {
			text = "at " + el.Get("uri").Str() + ": " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, " | ")
}

func numbered(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestReadResult(t *testing.T) {
	f := newResultsFixture(t)
	lines := f.keptText(t, call.Anonymous, numbered(40))
	json := f.keptText(t, call.Anonymous, `{"items":[{"id":1},{"id":2,"log":`+string(wire.String(numbered(30)))+`}]}`)
	parts := f.keptText(t, call.Anonymous, "first", `["second"]`)
	for _, tt := range []struct{ arguments, want string }{
		{`{"uri":"` + lines + `","lines":"2-3"}`, "line 2\nline 3\n[This is lines 2-3 of 40.]"},
		{`{"uri":"` + lines + `?lines=2"}`, "line 2\n[This is lines 2-2 of 40.]"},
		{`{"uri":"` + lines + `?lines=2","lines":"3"}`, "line 3\n[This is lines 3-3 of 40.]"},
		{`{"uri":"` + strings.TrimPrefix(lines, "gateway+result://") + `","lines":2}`, "line 2\n[This is lines 2-2 of 40.]"},
		{`{"uri":"` + lines + `","lines":"30-","pointer":null}`, numbered(40)[strings.Index(numbered(40), "line 30\n"):] + "[This is lines 30-40 of 40.]"},
		{`{"uri":"` + lines + `","grep":"line 2$","context":1}`, "1-line 1\n2:line 2\n3-line 3\n[This is 1 matching line among lines 1-40 of 40.]"},
		{`{"uri":"` + lines + `"}`, numbered(13)[:95] + `[This is bytes 0-94 of 311. Read on with {"uri": "` + lines + `?range=95-"}.]`},
		{`{"uri":"` + lines + `","lines":"1-39"}`, numbered(13)[:95] + `[This is lines 1-13 of 40. Read on with {"uri": "` + lines + `?lines=14-39"}.]`},
		{`{"uri":"` + json + `","pointer":"/items/0/id"}`, "1[This is bytes 0-0 of 1.]"},
		{`{"uri":"` + json + `","pointer":"/items/1/log","lines":"-1"}`, "line 30\n[This is lines 30-30 of 30.]"},
		{`{"uri":"` + parts + `","part":2,"pointer":"/0"}`, "second[This is bytes 0-5 of 6.]"},
		{`{"uri":"` + json + `","pointer":"/item"}`, `isError: pointer "/item": the value has no member "item"; it has "items"`},
		{`{"uri":"` + lines + `","lines":"x"}`, `isError: lines must be "from-to", "from-" for up to the end, or "-n" for the last n; it is "x"`},
		{`{"uri":"` + lines + `","lines":["1"]}`, "isError: `lines` must be a string."},
		{`{"uri":"` + lines + `","part":0}`, "isError: `part` must be the number of a part, from 1."},
		{`{"uri":"` + lines + `","line":3}`, "isError: read_result has no argument `line`. It takes uri, lines, pointer, grep, context, range and part."},
		{`{}`, `isError: read_result needs "uri": the URI of a long result, which begins with gateway+result://.`},
		{`{"uri":"files+file:///a"}`, `isError: There is no result "files+file:///a". It may have expired, or its room was needed; call the tool again.`},
		{`{"uri":"gateway+result://aaaa"}`, `isError: There is no result "gateway+result://aaaa". It may have expired, or its room was needed; call the tool again.`},
	} {
		if got := f.call(t, results.ReadTool, tt.arguments); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.arguments, got, tt.want)
		}
	}
}

func TestReadResultAsResource(t *testing.T) {
	f := newResultsFixture(t)
	uri := f.keptText(t, call.Anonymous, numbered(40))
	for _, tt := range []struct{ query, want string }{
		{"", numbered(40)},
		{"?lines=2-3", "line 2\nline 3\n"},
		{"/1?range=0-5", "line 1"},
		{"?grep=e%201$", "1:line 1\n"},
		{"?grep=e 1$", "1:line 1\n"},
		{"?range=0-", numbered(13)[:95] + " | at " + uri + "?range=95-: [This is bytes 0-94 of 311. Read on at " + uri + "?range=95-]"},
		{"?lines=99", "error: lines=99-99: there are 40 lines, numbered from 1 (-32602)"},
		{"?offset=3", `error: the URI has the unknown parameter "offset"; there are pointer, lines, range, grep and context (-32602)`},
	} {
		if got := f.readURI(t, call.Anonymous, uri+tt.query); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.query, got, tt.want)
		}
	}
}

// The whole of a result has its blobs too, each under the URI of its part.
func TestReadResultWithBlob(t *testing.T) {
	f := newResultsFixture(t)
	shortened := results.Shorten(wire.ValueOf(wire.Raw(`{"content":[{"type":"text","text":"about the file"},`+
		`{"type":"resource","resource":{"uri":"a:b","mimeType":"image/x","blob":"AAECAwQFBgc="}}]}`)), 10, false)
	id, err := f.Results.Store.Put(t.Context(), results.Owner{Identity: call.Anonymous.Identity()}, shortened.Document)
	if err != nil {
		t.Fatal(err)
	}
	uri := results.Scheme + "//" + id
	for query, want := range map[string]string{
		"":           "about the file | at " + uri + "/2: AAECAwQFBgc=",
		"/1":         "about the file",
		"/2":         "AAECAwQFBgc=",
		"?range=0-4": "about",
	} {
		if got := f.readURI(t, call.Anonymous, uri+query); got != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
	want := "isError: This is bytes 0-7 of 8 of a blob, of type image/x, and no text. A program can read it as the resource " + uri + "/2."
	if got := f.call(t, results.ReadTool, `{"uri":"`+uri+`","part":2}`); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A result that another principal or another profile has kept looks like one that does not exist,
// whatever is asked of it.
func TestResultsOfOthersDoNotExist(t *testing.T) {
	f := newResultsFixture(t)
	ann := &call.Principal{Subject: "ann", AuthMethod: "jwt", Profile: "p"}
	uri, absent := f.keptText(t, ann, "secret of ann"), results.Scheme+"//"+strings.Repeat("a", 32)
	for _, query := range []string{"", "?lines=1", "?lines=x", "?pointer=/a", "/9", "?grep=("} {
		for _, who := range []*call.Principal{{Subject: "bob", AuthMethod: "jwt", Profile: "p"}, ann.In("q"), ann.In(""), call.Anonymous} {
			if got := f.readURI(t, who, uri+query); got != "error: "+call.ErrNoItem.Error() || got != f.readURI(t, who, absent+query) {
				t.Errorf("%s reads %s: %s", who.Key(), query, got)
			}
		}
	}
	if got := f.readURI(t, ann, uri); got != "secret of ann" {
		t.Errorf("the owner reads %s", got)
	}
}

// failing is a store that cannot be reached.
type failing struct{ results.Store }

func (failing) Get(context.Context, results.Owner, string) (*results.Document, error) {
	return nil, errors.New("read tcp 10.0.0.1:5->10.0.0.2:6379: NOPERM")
}

// Clients are told that they may try again, and nothing of the network or the store.
func TestStoreFails(t *testing.T) {
	f := newResultsFixture(t)
	var logged error
	f.Results.Store, f.Results.Failed = failing{}, func(_ *call.Call, err error) { logged = err }
	const want = "error: the result cannot be read: it is not kept here, and the store that the gateway shares with its replicas has not answered; try again later (-32603)"
	if got := f.call(t, results.ReadTool, `{"uri":"gateway+result://a"}`); got != want {
		t.Error(got)
	}
	if logged == nil || !strings.Contains(logged.Error(), "NOPERM") || !strings.Contains(string(errUnread.Data), `"retryable":true`) {
		t.Errorf("logged %v; the error has %s", logged, errUnread.Data)
	}
}

// A result goes with the right to use any of the tools that gave it.
func TestReadResultOfHiddenTool(t *testing.T) {
	f := newResultsFixture(t)
	tool := func(upstream, native string) results.Item {
		return results.Item{Kind: wire.ItemTool, Upstream: upstream, Name: "files__" + native, Native: native}
	}
	notFound := "error: " + call.ErrNoItem.Error()
	for _, tt := range []struct {
		items []results.Item
		want  string
	}{
		{nil, "kept"},
		{[]results.Item{tool("files", "read")}, "kept"},
		{[]results.Item{tool("files", "append"), tool("files", "read")}, "kept"},
		{[]results.Item{tool("files", "read"), tool("files", "secret")}, notFound},
		{[]results.Item{tool("files", "secret"), tool("files", "read")}, notFound},
		{[]results.Item{tool("files", "gone")}, notFound},
		{[]results.Item{tool("removed", "read")}, notFound},
		{[]results.Item{{Kind: wire.ItemTool, Upstream: "files", Name: "files__read", Native: "another tool before"}}, notFound},
	} {
		d := &results.Document{Text: []byte("kept"), Parts: []results.Part{{Kind: "text", End: 4}}, Items: tt.items}
		who := call.Anonymous
		id, err := f.Results.Store.Put(t.Context(), results.Owner{Identity: who.Identity(), Profile: who.Profile}, d)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.readURI(t, who, results.Scheme+"//"+id); got != tt.want {
			t.Errorf("a result of %v: got %q, want %q", tt.items, got, tt.want)
		}
	}
}
