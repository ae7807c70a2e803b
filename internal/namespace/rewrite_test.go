package namespace

import (
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestResult(t *testing.T) {
	asked := Asked{Native: "file:///a", Public: "files+0:file:///a"}
	tests := []struct {
		name, method string
		asked        Asked
		in, want     string
	}{
		{"text stays", wire.MethodToolsCall, Asked{},
			`{"content":[{"type":"text","text":"file:///a","uri":"file:///a","resource":{"uri":"file:///a"}}],"structuredContent":{"type":"resource","resource":{"uri":"file:///a"}},"uri":"file:///a"}`, ""},
		{"embedded and link, other bytes stay", wire.MethodToolsCall, Asked{},
			`{ "content" : [ {"type":"resource", "resource": {"uri" : "file:\/\/\/a","big":12345678901234567890, "text":"\ud83d"}} , {"uri":"ui://x","type":"resource_link","x":{"uri":"file:///a"}} ], "isError":false }`,
			`{ "content" : [ {"type":"resource", "resource": {"uri" : "files+file:///a","big":12345678901234567890, "text":"\ud83d"}} , {"uri":"ui://files.x","type":"resource_link","x":{"uri":"file:///a"}} ], "isError":false }`},
		{"web addresses stay", wire.MethodToolsCall, Asked{},
			`{"content":[{"type":"resource_link","uri":"https://example.com/"}]}`, ""},
		{"escaped type", wire.MethodToolsCall, Asked{},
			`{"content":[{"type":"\u0072esource_link","\u0075ri":"a:b"}]}`, `{"content":[{"type":"\u0072esource_link","\u0075ri":"files+a:b"}]}`},
		{"a member next to the embedded resource", wire.MethodToolsCall, Asked{},
			`{"content":[{"type":"resource","uri":"a:1","resource":{"uri":"a:2"}}]}`, `{"content":[{"type":"resource","uri":"a:1","resource":{"uri":"files+a:2"}}]}`},
		{"every duplicate", wire.MethodToolsCall, Asked{},
			`{"content":[{"type":"resource","type":"text","resource":{"uri":"a:1","uri":"a:2"},"resource":{"uri":"a:3"}}],"content":[{"type":"resource_link","type":"text","uri":"a:4","uri":"a:5"}]}`,
			`{"content":[{"type":"resource","type":"text","resource":{"uri":"files+a:1","uri":"files+a:2"},"resource":{"uri":"files+a:3"}}],"content":[{"type":"resource_link","type":"text","uri":"files+a:4","uri":"files+a:5"}]}`},
		{"unexpected shapes stay", wire.MethodToolsCall, Asked{},
			`{"content":{"type":"resource"},"content":[1,null,{"type":"resource","resource":"a:b"},{"type":"resource_link","uri":7},{"type":["resource_link"],"uri":"a:b"}]}`, ""},
		{"no object", wire.MethodToolsCall, Asked{}, `"resource"`, ""},
		{"prompt messages", wire.MethodPromptsGet, Asked{},
			`{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:b","text":"a:b"}}},{"role":"user","content":{"type":"text","text":"resource"}}]}`,
			`{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"files+a:b","text":"a:b"}}},{"role":"user","content":{"type":"text","text":"resource"}}]}`},
		{"contents are named as the client named them", wire.MethodResourcesRead, asked,
			`{"contents":[{"uri":"file:///a","text":"x"},{"uri":"file:///a/child"},{"uri":"file:///a","blob":""}],"resultType":"complete"}`,
			`{"contents":[{"uri":"files+0:file:///a","text":"x"},{"uri":"files+file:///a/child"},{"uri":"files+0:file:///a","blob":""}],"resultType":"complete"}`},
		{"metadata", wire.MethodResourcesMetadata, asked, `{"resource":{"uri":"file:///a","name":"a"}}`, `{"resource":{"uri":"files+0:file:///a","name":"a"}}`},
		{"children", wire.MethodResourcesList, asked, `{"resources":[{"uri":"file:///a/b","name":"b"}]}`, `{"resources":[{"uri":"files+file:///a/b","name":"b"}]}`},
		{"asks of a round", wire.MethodToolsCall, Asked{},
			`{"resultType":"input_required","inputRequests":{"1":{"method":"sampling/createMessage","params":{"messages":[{"content":{"type":"resource","resource":{"uri":"a:b"}}}]}},"2":{"method":"elicitation/create","params":{"messages":[{"content":{"type":"resource","resource":{"uri":"a:b"}}}]}}},"requestState":"resource"}`,
			`{"resultType":"input_required","inputRequests":{"1":{"method":"sampling/createMessage","params":{"messages":[{"content":{"type":"resource","resource":{"uri":"files+a:b"}}}]}},"2":{"method":"elicitation/create","params":{"messages":[{"content":{"type":"resource","resource":{"uri":"a:b"}}}]}}},"requestState":"resource"}`},
		{"completion", wire.MethodComplete, Asked{}, `{"completion":{"values":["file:///a"]}}`, ""},
	}
	s := naming(t, "files", "files")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, wire.Raw(tt.in), s.Result(tt.method, wire.ValueOf(wire.Raw(tt.in)), tt.asked), tt.want)
			in := wire.Raw(tt.in)
			if got := naming(t, "files", "").Result(tt.method, wire.ValueOf(in), Asked{}); &got[0] != &in[0] {
				t.Errorf("without a prefix: got %s", got)
			}
		})
	}
}

// check compares an outcome; "" means that the outcome must be the input itself, not a copy.
func check(t *testing.T, in, got wire.Raw, want string) {
	t.Helper()
	if want == "" {
		want = string(in)
		if string(got) != want {
			t.Errorf("got  %s\nwant it unchanged", got)
		}
		return
	}
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUnchangedResultIsTheSameSlice(t *testing.T) {
	s := naming(t, "files", "files")
	for _, doc := range []string{toolResult, strings.Replace(toolResult, "lorem", `\u00e9 resource`, 1)} {
		in := wire.Raw(doc)
		var got wire.Raw
		if n := testing.AllocsPerRun(100, func() { got = s.Result(wire.MethodToolsCall, wire.ValueOf(in), Asked{}) }); n != 0 {
			t.Errorf("%v allocations, want none", n)
		}
		if &got[0] != &in[0] || len(got) != len(in) {
			t.Error("the result was copied")
		}
	}
}

func TestAskParams(t *testing.T) {
	s := naming(t, "files", "files")
	in := `{"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"resource_link","uri":"a:1"},{"type":"tool_result","content":[{"type":"resource_link","uri":"a:9"}]}]},{"type":"resource","resource":{"uri":"a:2"}}]}],"tools":[{"name":"read","uri":"a:3"}],"systemPrompt":"a:4"}`
	want := strings.NewReplacer("a:1", "files+a:1", "a:2", "files+a:2").Replace(in)
	check(t, wire.Raw(in), s.AskParams(wire.MethodSample, wire.Raw(in)), want)
	check(t, wire.Raw(in), s.AskParams(wire.MethodElicit, wire.Raw(in)), "")
}

func TestNoteParams(t *testing.T) {
	s := naming(t, "files", "files")
	in := wire.Raw(`{"uri":"file:///a","_meta":{"uri":"file:///a"}}`)
	check(t, in, s.NoteParams(wire.NoteResourceUpdated, in), `{"uri":"files+file:///a","_meta":{"uri":"file:///a"}}`)
	check(t, in, s.NoteParams(wire.NoteMessage, in), "")
	if got := s.NoteParams(wire.NoteResourceUpdated, nil); got != nil {
		t.Errorf("no params: %s", got)
	}
}

func TestError(t *testing.T) {
	s := naming(t, "files", "files")
	m, err := wire.ParseUpstream([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"x":1,"message":"file:///a","data":{"uri":"file:///a","y":2}}}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := s.Error(m.Error, Asked{Native: "file:///a", Public: "files+0:file:///a"})
	want := `{"code":-32002,"x":1,"message":"file:///a","data":{"uri":"files+0:file:///a","y":2}}`
	if string(got.Append(nil)) != want || string(got.Data) != `{"uri":"files+0:file:///a","y":2}` {
		t.Errorf("got %s with data %s", got.Append(nil), got.Data)
	}
	if strings.Contains(string(m.Error.Append(nil)), "files+") {
		t.Error("the upstream's error was changed")
	}
	for _, e := range []*wire.Error{wire.Errorf(-1, "x"), wire.Errorf(-1, "x").WithData(wire.Raw(`{"x":{"uri":"a:b"}}`))} {
		if got := s.Error(e, Asked{}); got != e {
			t.Errorf("%s became %s", e.Append(nil), got.Append(nil))
		}
	}
	made := s.Error(wire.Errorf(-1, "x").WithData(wire.Raw(`{"uri":"a:b"}`)), Asked{})
	if got := string(made.Append(nil)); got != `{"code":-1,"message":"x","data":{"uri":"files+a:b"}}` {
		t.Errorf("got %s", got)
	}
}

func TestItem(t *testing.T) {
	tests := []struct {
		name   string
		kind   call.Kind
		public string
		mark   bool
		in     string
		want   string
	}{
		{"tool", call.Tool, "files__read", false,
			`{"title":"read","name":"read","inputSchema":{"properties":{"name":{"type":"string"}}},"icons":[{"src":"file:///a"}]}`,
			`{"title":"read","name":"files__read","inputSchema":{"properties":{"name":{"type":"string"}}},"icons":[{"src":"file:///a"}]}`},
		{"apps", call.Tool, "t", false,
			`{"name":"t","_meta":{"ui":{"resourceUri":"ui://a","uri":"ui://a"},"ui/resourceUri":"ui://b","openai/outputTemplate":"ui://c","other":"ui://d"}}`,
			`{"name":"t","_meta":{"ui":{"resourceUri":"ui://files.a","uri":"ui://a"},"ui/resourceUri":"ui://files.b","openai/outputTemplate":"ui://files.c","other":"ui://d"}}`},
		{"mark without _meta", call.Prompt, "files__a_h", true, `{"name":"a b"}`, `{"name":"files__a_h","_meta":{"mcpgateway/native":"a b"}}`},
		{"mark with _meta", call.Tool, "x", true, `{"_meta":{"ui":{"resourceUri":"ui://a"}},"name":"a b"}`, `{"_meta":{"ui":{"resourceUri":"ui://files.a"},"mcpgateway/native":"a b"},"name":"x"}`},
		{"mark over a mark", call.Tool, "x", true, `{"_meta":{"mcpgateway/native":"old"},"name":"a b"}`, `{"_meta":{"mcpgateway/native":"a b"},"name":"x"}`},
		{"mark with an invalid _meta", call.Tool, "x", true, `{"_meta":null,"name":"a b"}`, `{"_meta":null,"name":"x"}`},
		{"resource", call.Resource, "files+a:b", false, `{"uri":"a:b","name":"a:b"}`, `{"uri":"files+a:b","name":"a:b"}`},
		{"template", call.Template, "files+a:{b}", false, `{"uriTemplate":"a:{b}","name":"n"}`, `{"uriTemplate":"files+a:{b}","name":"n"}`},
		{"unchanged", call.Tool, "read", false, `{"name":"read"}`, ""},
	}
	s := naming(t, "files", "files")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, wire.Raw(tt.in), s.Item(tt.kind, wire.Raw(tt.in), tt.public, tt.mark), tt.want)
		})
	}
}

func TestRef(t *testing.T) {
	tests := []struct {
		name, method, params string
		kind                 call.Kind
		public, with         string
		fault                string
	}{
		{"call", wire.MethodToolsCall, `{"name":"p","arguments":{"name":"p"}}`, call.Tool, "p", `{"name":"N","arguments":{"name":"p"}}`, ""},
		{"prompt", wire.MethodPromptsGet, `{"name":"p"}`, call.Prompt, "p", `{"name":"N"}`, ""},
		{"read", wire.MethodResourcesRead, `{"uri":"p", "_meta":{}}`, call.Resource, "p", `{"uri":"N", "_meta":{}}`, ""},
		{"subscribe", wire.MethodResourcesSubscribe, `{"uri":"p"}`, call.Resource, "p", `{"uri":"N"}`, ""},
		{"unsubscribe", wire.MethodResourcesUnsub, `{"uri":"p"}`, call.Resource, "p", `{"uri":"N"}`, ""},
		{"metadata", wire.MethodResourcesMetadata, `{"uri":"p"}`, call.Resource, "p", `{"uri":"N"}`, ""},
		{"children", wire.MethodResourcesList, `{"cursor":"c","uri":"p"}`, call.Resource, "p", `{"cursor":"c","uri":"N"}`, ""},
		{"complete a prompt", wire.MethodComplete, `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"p","value":"p"}}`, call.Prompt, "p", `{"ref":{"type":"ref/prompt","name":"N"},"argument":{"name":"p","value":"p"}}`, ""},
		{"complete a template", wire.MethodComplete, `{"ref":{"type":"ref/resource","uri":"p"}}`, call.Template, "p", `{"ref":{"type":"ref/resource","uri":"N"}}`, ""},
		{"the whole list", wire.MethodResourcesList, `{"cursor":"c"}`, 0, "", "", ""},
		{"no params", wire.MethodToolsList, ``, 0, "", "", ""},
		{"name missing", wire.MethodToolsCall, `{}`, 0, "", "", "tools/call: params.name must be a string (-32602)"},
		{"no params at all", wire.MethodResourcesRead, ``, 0, "", "", "resources/read: params.uri must be a string (-32602)"},
		{"name no string", wire.MethodPromptsGet, `{"name":1}`, 0, "", "", "prompts/get: params.name must be a string (-32602)"},
		{"uri no string", wire.MethodResourcesList, `{"uri":null}`, 0, "", "", "resources/list: params.uri must be a string (-32602)"},
		{"ref of no type", wire.MethodComplete, `{"ref":{"name":"p"}}`, 0, "", "", `completion/complete: params.ref must be an object whose type is "ref/prompt" or "ref/resource" (-32602)`},
		{"ref without name", wire.MethodComplete, `{"ref":{"type":"ref/prompt"}}`, 0, "", "", "completion/complete: params.ref.name must be a string (-32602)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref, ok, err := ItemRefOf(tt.method, wire.Raw(tt.params))
			if tt.fault != "" {
				if err == nil || err.Error() != tt.fault {
					t.Errorf("got error %v, want %s", err, tt.fault)
				}
				return
			}
			if err != nil || ok != (tt.with != "") {
				t.Fatalf("got %v, %v", ok, err)
			}
			if !ok {
				return
			}
			if ref.Kind != tt.kind || ref.Name != tt.public {
				t.Errorf("got %v %q", ref.Kind, ref.Name)
			}
			if got := string(ref.With("N")); got != tt.with {
				t.Errorf("got %s, want %s", got, tt.with)
			}
			if got := string(ref.With("p")); got != tt.params {
				t.Errorf("the same name: got %s", got)
			}
		})
	}
}

// Rewriting keeps any valid JSON valid.
func FuzzResult(f *testing.F) {
	for _, s := range []string{toolResult, `{"content":[{"type":"resource","resource":{"uri":"a:b"}}]}`, `{"messages":[]}`, `{"contents":[{"uri":"a"}]}`, `[]`, `{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[{"content":[{"type":"tool_result","content":[]}]}]}}}}`} {
		f.Add([]byte(s))
	}
	s := naming(f, "files", "files")
	f.Fuzz(func(t *testing.T, doc []byte) {
		if wire.Check(doc, wire.Limits{}, wire.Lenient) != nil {
			return
		}
		outs := []wire.Raw{
			s.AskParams(wire.MethodSample, doc),
			s.NoteParams(wire.NoteResourceUpdated, doc),
			s.Item(call.Tool, doc, "public", wire.ValueOf(doc).Kind() == '{'),
		}
		for _, method := range []string{wire.MethodToolsCall, wire.MethodPromptsGet, wire.MethodResourcesRead, wire.MethodResourcesMetadata, wire.MethodResourcesList} {
			outs = append(outs, s.Result(method, wire.ValueOf(doc), Asked{Native: "a", Public: "files+0:a"}))
		}
		for _, out := range outs {
			if err := wire.Check(out, wire.Limits{}, wire.Lenient); err != nil {
				t.Errorf("%s\nbecomes %s\n%v", doc, out, err)
			}
		}
	})
}

var toolResult = `{"content":[{"type":"text","text":"` + strings.Repeat("lorem ipsum ", 85) + `"}],"structuredContent":{"rows":[{"id":1,"name":"a"},{"id":2,"name":"b"}]},"isError":false}`

func BenchmarkResult(b *testing.B) {
	s := naming(b, "files", "files")
	for _, bm := range []struct{ name, doc string }{
		{"without", toolResult},
		{"word", strings.Replace(toolResult, "lorem", "resource", 1)},
		{"reference", strings.Replace(toolResult, `"isError"`, `"content":[{"type":"resource_link","uri":"file:///a"}],"isError"`, 1)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			in := wire.Raw(bm.doc)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				s.Result(wire.MethodToolsCall, wire.ValueOf(in), Asked{})
			}
		})
	}
}
