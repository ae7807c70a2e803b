package downlevel

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/wire"
)

// revisions are all revisions of clients, and a future one.
var revisions = append(append(wire.LegacyRevisions(), wire.ModernRevisions()...), "2027-01-01")

// before returns the revisions older than rev, for tables: something of rev is replaced
// for these only.
func before(rev wire.Revision) map[wire.Revision]bool {
	out := map[wire.Revision]bool{}
	for _, r := range revisions {
		out[r] = r < rev
	}
	return out
}

func TestResult(t *testing.T) {
	const (
		audio = `{"type":"audio","data":"UklGRiQA","mimeType":"audio/wav"}`
		link  = `{"type":"resource_link","uri":"files+file:///a.txt","name":"a.txt"}`

		audioAsText = `{"type":"text","text":"Audio, left out because the client's protocol revision has none.\nMIME type: audio/wav\nSize: 6 bytes"}`
		linkAsText  = `{"type":"text","text":"Link to a resource.\nName: a.txt\nURI: files+file:///a.txt"}`
	)
	tests := []struct {
		name   string
		method string // "" means tools/call
		in     string
		since  wire.Revision // the first revision that knows the content; older ones get want
		want   string
		counts Counts
	}{
		{
			name: "audio", since: wire.Rev20250326, counts: Counts{Audio: 1},
			in:   `{ "x":1e2, "content" : [{"type":"text","text":"a"}, ` + audio + `],"isError":false}`,
			want: `{ "x":1e2, "content" : [{"type":"text","text":"a"}, ` + audioAsText + `],"isError":false}`,
		},
		{
			name: "what every block may have", since: wire.Rev20250326, counts: Counts{Audio: 1},
			in:   `{"content":[{"annotations":{"priority":1.0},"type":"audio","_meta":{"x":-0},"data":"","mimeType":"audio\/\u0077av","y":1}]}`,
			want: `{"content":[{"type":"text","text":"Audio, left out because the client's protocol revision has none.\nMIME type: audio\/\u0077av\nSize: 0 bytes","annotations":{"priority":1.0},"_meta":{"x":-0}}]}`,
		},
		{
			name: "audio without what it must have", since: wire.Rev20250326, counts: Counts{Audio: 1},
			in:   `{"content":[{"type":"audio","mimeType":7,"annotations":[]}]}`,
			want: `{"content":[{"type":"text","text":"Audio, left out because the client's protocol revision has none."}]}`,
		},
		{
			name: "a type with escapes, and one that stands twice", since: wire.Rev20250326, counts: Counts{Audio: 2},
			in:   `{"c\u006fntent":[{"type":"\u0061udio"},{"type":"text","text":"a","type":"audio"}]}`,
			want: `{"c\u006fntent":[{"type":"text","text":"Audio, left out because the client's protocol revision has none."},{"type":"text","text":"Audio, left out because the client's protocol revision has none."}]}`,
		},
		{
			name: "a type that stands nowhere plainly", since: wire.Rev20250326, counts: Counts{Audio: 1},
			in:   `{"content":[{"type":"\u0061udio"}]}`,
			want: `{"content":[{"type":"text","text":"Audio, left out because the client's protocol revision has none."}]}`,
		},
		{
			name: "a link", since: wire.Rev20250618, counts: Counts{ResourceLink: 1},
			in: `{"content":[` + link + `]}`, want: `{"content":[` + linkAsText + `]}`,
		},
		{
			name: "a link with everything", since: wire.Rev20250618, counts: Counts{ResourceLink: 1},
			in: `{"content":[{"type":"resource_link","uri":"a:b","name":"\"n\"","title":"T\ud83d","description":"D\nE","mimeType":"text/plain","size":1e3,` +
				`"icons":[],"annotations":{"audience":["user"]}}]}`,
			want: `{"content":[{"type":"text","text":"Link to a resource.\nName: \"n\"\nTitle: T\ud83d\nURI: a:b\nDescription: D\nE\nMIME type: text/plain\nSize: 1e3 bytes",` +
				`"annotations":{"audience":["user"]}}]}`,
		},
		{
			name: "a prompt with audio", method: "prompts/get", since: wire.Rev20250326, counts: Counts{Audio: 1},
			in:   `{"description":"d","messages":[{"role":"user","content":` + audio + `},{"role":"user","content":{"type":"text","text":"resource_link"}}]}`,
			want: `{"description":"d","messages":[{"role":"user","content":` + audioAsText + `},{"role":"user","content":{"type":"text","text":"resource_link"}}]}`,
		},
		{
			name: "a prompt with a link", method: "prompts/get", since: wire.Rev20250618, counts: Counts{ResourceLink: 1},
			in:   `{"messages":[{"role":"user","content":` + link + `}]}`,
			want: `{"messages":[{"role":"user","content":` + linkAsText + `}]}`,
		},
		{
			name: "the result of a task", method: "tasks/result", since: wire.Rev20250618, counts: Counts{ResourceLink: 1},
			in:   `{"content":[` + link + `],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`,
			want: `{"content":[` + linkAsText + `],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`,
		},
		{
			name: "structured content beside its text", since: wire.Rev20260728, counts: Counts{StructuredContent: 1},
			in:   `{"content":[{"type":"text","text":"a"},{"type":"text","text":" [1.0, {\"b\":\"\\u00e9\", \"a\":null}]"}],"structuredContent":[1,{"a":null,"b":"é"}],"isError":false}`,
			want: `{"content":[{"type":"text","text":"a"},{"type":"text","text":" [1.0, {\"b\":\"\\u00e9\", \"a\":null}]"}],"isError":false}`,
		},
		{
			name: "structured content beside other text", since: wire.Rev20260728, counts: Counts{StructuredContent: 1},
			in:   `{"structuredContent":[9007199254740993, "a"],"content":[{"type":"text","text":"two items"}, {"type":"resource","text":"[9007199254740993, \"a\"]"}, 7 ]}`,
			want: `{"content":[{"type":"text","text":"two items"}, {"type":"resource","text":"[9007199254740993, \"a\"]"}, 7 ,{"type":"text","text":"[9007199254740993, \"a\"]"}]}`,
		},
		{
			name: "structured content and no text", since: wire.Rev20260728, counts: Counts{StructuredContent: 1},
			in: `{"content":[ ],"structuredContent":17}`, want: `{"content":[ {"type":"text","text":"17"}]}`,
		},
		{
			name: "structured content alone", since: wire.Rev20260728, counts: Counts{StructuredContent: 1},
			in: `{"structuredContent":null}`, want: `{"content":[{"type":"text","text":"null"}]}`,
		},
		{
			name: "a structured string beside itself", since: wire.Rev20260728, counts: Counts{StructuredContent: 1},
			in: `{"content":[{"type":"text","text":"caf\u00e9"}],"structuredContent":"café"}`, want: `{"content":[{"type":"text","text":"caf\u00e9"}]}`,
		},
		{
			name: "structured content that has no canonical form", since: wire.Rev20260728, counts: Counts{StructuredContent: 1},
			in:   `{"content":[{"type":"text","text":"[1e999,{\"a\":1,\"a\":2}]"}],"structuredContent":[1e999,{"a":1,"a":2}]}`,
			want: `{"content":[{"type":"text","text":"[1e999,{\"a\":1,\"a\":2}]"}]}`,
		},
		{
			name: "structured content under an escaped name", since: wire.Rev20260728, counts: Counts{StructuredContent: 1},
			in: `{"content":[{"type":"text","text":"true"}],"structured\u0043ontent":true}`, want: `{"content":[{"type":"text","text":"true"}]}`,
		},
		{
			name: "structured content that stands twice", since: wire.Rev20260728, counts: Counts{StructuredContent: 1},
			in: `{"structuredContent":{},"content":[],"structuredContent":[1]}`, want: `{"content":[{"type":"text","text":"[1]"}]}`,
		},
		{
			name: "content that is no array", since: wire.Rev20260728, counts: Counts{StructuredContent: 1},
			in: `{"content":"a","structuredContent":[]}`, want: `{"content":"a"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = wire.MethodToolsCall
			}
			for rev, older := range before(tt.since) {
				want, counts := tt.in, Counts{}
				if older {
					want, counts = tt.want, tt.counts
				}
				got, counted := Result(rev, tt.method, wire.ValueOf(wire.Raw(tt.in)))
				if diff := cmp.Diff(want, string(got)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", rev, diff)
				}
				if counted != counts {
					t.Errorf("%s: counted %v, want %v", rev, counted, counts)
				}
			}
		})
	}
}

// TestResultByRevision replaces everything that a result can contain, for each revision.
func TestResultByRevision(t *testing.T) {
	const in = `{"content":[{"type":"audio","data":"AAAA","mimeType":"a/b"},{"type":"resource_link","uri":"a:b","name":"n"},{"type":"hologram"}],"structuredContent":[1]}`
	const (
		audio    = `{"type":"audio","data":"AAAA","mimeType":"a/b"},`
		link     = `{"type":"resource_link","uri":"a:b","name":"n"},`
		unknown  = `{"type":"hologram"}`
		added    = `,{"type":"text","text":"[1]"}`
		audioOld = `{"type":"text","text":"Audio, left out because the client's protocol revision has none.\nMIME type: a/b\nSize: 3 bytes"},`
		linkOld  = `{"type":"text","text":"Link to a resource.\nName: n\nURI: a:b"},`
	)
	for rev, want := range map[wire.Revision]string{
		wire.Rev20241105: `{"content":[` + audioOld + linkOld + unknown + added + `]}`,
		wire.Rev20250326: `{"content":[` + audio + linkOld + unknown + added + `]}`,
		wire.Rev20250618: `{"content":[` + audio + link + unknown + added + `]}`,
		wire.Rev20251125: `{"content":[` + audio + link + unknown + added + `]}`,
		wire.Rev20260728: in,
	} {
		got, _ := Result(rev, wire.MethodToolsCall, wire.ValueOf(wire.Raw(in)))
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rev, diff)
		}
	}
}

// TestUntouched checks that results without newer parts are the same slice.
func TestUntouched(t *testing.T) {
	tests := []struct{ name, method, in string }{
		{"a type of tomorrow", "tools/call", `{"content":[{"type":"hologram","audio":"audio"},{"type":"Audio"},{"type":["audio"]},"resource_link",null]}`},
		{"words in other places", "tools/call", `{"content":[{"type":"text","text":"audio resource_link structuredContent \u0061"}],"_meta":{"structuredContent":[1],"content":[{"type":"audio"}]},"type":"audio"}`},
		{"blocks inside blocks", "tools/call", `{"content":[{"type":"hologram","content":[{"type":"audio"}]}]}`},
		{"structured content that is an object", "tools/call", `{"content":[],"structuredContent":{"structuredContent":[1],"type":"audio"}}`},
		{"structured content of another method", "prompts/get", `{"messages":[],"structuredContent":[1]}`},
		{"blocks in a place of another method", "prompts/get", `{"content":[{"type":"audio"}],"messages":[{"content":[{"type":"audio"}]},{"content":"audio"},7]}`},
		{"a resource", "resources/read", `{"contents":[{"uri":"a:b","text":"","type":"audio","mimeType":"audio/wav"}],"structuredContent":[1]}`},
		{"a completion", "completion/complete", `{"completion":{"values":["audio"]},"structuredContent":[1]}`},
		{"a method of tomorrow", "holograms/get", `{"content":[{"type":"audio"}],"structuredContent":[1]}`},
		{"no object", "tools/call", `["structuredContent",{"type":"audio"}]`},
		{"content that is no array", "tools/call", `{"content":{"type":"audio"}}`},
	}
	for _, tt := range tests {
		for _, rev := range revisions {
			in := wire.Raw(tt.in)
			got, counts := Result(rev, tt.method, wire.ValueOf(in))
			if &got[0] != &in[0] || len(got) != len(in) || counts != (Counts{}) {
				t.Errorf("%s, %s: %s, counted %v", tt.name, rev, got, counts)
			}
		}
	}
}
