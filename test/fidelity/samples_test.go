package fidelity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// tame is an object with all kinds of unusual JSON that a client may send, too.
const tame = `{ "zebra":1 , "alpha":[1e2,1.0,-0,-0.0,1E+2,9007199254740993,123456789012345678901234567890,0.1e-7,1e400],` + "\n\t " +
	`"\u0041\/\t":"\u0041\/ \ud83d \ude00\ud83d \u0000 é \u00e9 \"\\ \u2028","":{"":[ ]},"uri":"odd://untouched","name":"odd",` +
	`"progressToken":"untouched","_meta":{"ui":{"resourceUri":"ui://untouched"}},"b":true,"type":"resource_link","null":null,"a":{ }}`

// wild is tame with repeated members, which a server may send below the envelope.
var wild = strings.Replace(tame, `"b":true`, `"dup":1,"dup":{"dup":[],"dup":null},"b":true`, 1)

// schema is a schema that typed clients would change.
var schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"},` +
	`"n":{"const":9007199254740993,"multipleOf":1e-2,"maximum":1.0}},"unevaluatedProperties":false},"any":true},"$id":"urn:odd","type" : "object",` +
	`"properties":{"z":{"$ref":"#/$defs/node"},"a":{"anyOf":[{"type":["string","null"],"default":-0},{"enum":[1.0,1e0,"1"]}]},"name":{"type":"string"},` +
	`"uri":{"const":"odd://untouched"},"":{}},"required":["a"],"x-unknown":` + wild + `,"examples":[` + wild + `]}`

var long = strings.Repeat(`long \u00e9 \/ `, 8_000)

// lists are the server's lists, two pages each. The gateway rewrites only the named members.
var lists = []struct {
	method, member, id string
	items              []string
	broken             []string // items that no client could use, between the others
}{
	{"tools/list", "tools", "name", []string{
		`{ "x-first":` + wild + `, "name":"odd" , "title":"\u0041 tool","description":"` + long + `","inputSchema":` + schema + `,"outputSchema":` + schema +
			`,"annotations":{"readOnlyHint":false,"x-hint":` + wild + `},"icons":[{"src":"data:,x","x":1e2}],"execution":{"taskSupport":"forbidden","x":1.0},` +
			`"_meta":{"x/y":` + wild + `,"ui":{ "visibility":["model"],"resourceUri":"ui://odd/view","x":-0 },"ui/resourceUri":"ui://odd/view?a=1","openai/outputTemplate":"ui:plain"},"x-last":` + wild + `}`,
		`{"inputSchema":{"type":"object"},"name":"plain"}`,
		`{"name":"fails","inputSchema":{"type":"object","additionalProperties":1.0}}`,
		`{"name":"odd n\u0061me/\u00fc","inputSchema":{"type":"object"},"_meta":{"a":1e2}}`,
	}, []string{
		`{"name":"no schema","x":` + wild + `}`,
		`{"inputSchema":{"type":"object"},"title":"no name"}`,
	}},
	{"prompts/list", "prompts", "name", []string{
		`{"x-first":` + wild + `,"arguments":[{"x":` + wild + `,"name":"a","required":false},{"name":""}],"name":"odd","icons":[],"_meta":{"ui":{"resourceUri":"ui://untouched"}}}`,
		`{"name":"p\u006cain","x":1.0}`,
	}, []string{`{"title":"no name"}`}},
	{"resources/list", "resources", "uri", []string{
		`{"size":9007199254740993,"uri":"odd:\/\/thing" , "name":"odd","annotations":{"priority":1e0,"audience":["user"],"x":` + wild + `},"_meta":{"ui":{"resourceUri":"ui://untouched"}},"x":` + wild + `}`,
		`{"name":"view","uri":"ui://odd/view","mimeType":"text/html;profile=mcp-app","_meta":{"ui":{"csp":` + wild + `}}}`,
		`{"name":"web","uri":"https://example.com/a?b=%20#c","x":[1.0]}`,
		`{"name":"gone","uri":"odd://gone","x":-0}`,
		`{"mimeType":"inode\/directory","name":"directory","uri":"odd://dir/","x":1e2 }`,
	}, []string{`{"uri":"odd://no-name"}`, `{"name":"no uri"}`}},
	{"resources/templates/list", "resourceTemplates", "uriTemplate", []string{
		`{"x":` + wild + `,"name":"odd","uriTemplate":"odd://{+path}{?q*}","annotations":{"x":1e2}}`,
		`{"uriTemplate":"https://example.com/{id}","name":"web"}`,
	}, []string{`{"name":"bad","uriTemplate":"odd://{"}`}},
}

// note is a notification before a response.
type note struct{ method, params string }

// exchange is a request for an item and its outcome. In params, uris and names are those of the given naming, and meta is the member _meta. In
// notes, TOKEN stands for the progress token that the server received.
type exchange struct {
	name, method string
	item         string // native name, URI or template
	params       func(n naming, meta string) string
	notes        []note
	result       string
	fault        string
	refs         []string          // paths of the URIs in result and fault that become public
	enriched     map[string]string // the members of result that enrichment adds, by path
}

var calls = []exchange{
	{
		name: "tools/call with everything", method: "tools/call", item: "odd",
		params: func(n naming, meta string) string {
			return `{ "x-first":` + tame + `,"arguments":{"z":` + tame + `, "a":"` + long + `","uri":"odd://thing","name":"odd","arguments":{},"_meta":{"progressToken":7}},` +
				meta + `, "n\u0061me2":1,"name":` + n.name("odd") + ` ,"x-last":[9007199254740993]}`
		},
		notes: []note{
			{"notifications/progress", `{"x":` + wild + `,"progress":9007199254740993,"progressToken" : TOKEN ,"total":1e400,"message":"\u0041","_meta":{"x":1.0}}`},
			{"notifications/message", `{"level":"emergency","x":` + wild + `,"data":` + wild + `,"logger":"\u0041"}`},
			{"notifications/message", `{"data":9007199254740993, "level":"alert"}`},
			{"notifications/progress", `{"progressToken":TOKEN,"progress":1.0}`},
		},
		result: `{ "x-first":` + wild + `,"content":[ {"type":"text","text":"` + long + `","x":` + wild + `,"annotations":{"x":1e2,"lastModified":"2025-01-12T15:00:58Z"}},` +
			`{"type":"hologram","beam":` + wild + `,"uri":"odd://untouched","resource":{"uri":"odd://untouched"}}, 17 ,` +
			`{"x":1.0,"uri":"odd://thing","name":"odd","type":"resource_link","size":9007199254740993,"_meta":{"uri":"odd://untouched"}},` +
			`{"type":"resource","resource":{"text":"\ud83d","uri":"odd:\/\/elsewhere","annotations":{"x":1e2},"x":` + wild + `},"x":-0},` +
			`{"type":"resource_link","uri":"https://example.com/","name":"web"},{"type":"resource_link","uri":"ui://odd/view","name":"view"},` +
			`{"type":"image","data":"AA==","mimeType":"image/png","x":` + wild + `},{"type":"audio","data":"","mimeType":"audio/wav"},null],` +
			`"structuredContent":` + wild + `,"isError":false,"resultType":"complete","_meta":{"x/y":` + wild + `,"io.modelcontextprotocol/serverInfo":{"name":"odd","version":"1.0","x":1e2}},"x-last":` + wild + ` }`,
		refs:     []string{"content/3/uri", "content/4/resource/uri", "content/6/uri"},
		enriched: map[string]string{"content/4/annotations": `{"x":1e2}`},
	},
	{
		name: "tools/call that is small", method: "tools/call", item: "plain",
		params: func(n naming, meta string) string { return "{\r\n\t\"name\":" + n.name("plain") + ",\r\n" + meta + "}" },
		result: "{\r\n\t\"isError\":true , \"content\":[\r]\r\n}",
	},
	{
		name: "tools/call with a name that was shortened", method: "tools/call", item: awkward,
		params: func(n naming, meta string) string { return `{` + meta + `,"name" : ` + n.name(awkward) + ` }` },
		result: `{"content":[]}`,
	},
	{
		name: "tools/call that fails", method: "tools/call", item: "fails",
		params: func(n naming, meta string) string {
			return `{` + meta + `,"name":` + n.name("fails") + `,"arguments":{}}`
		},
		notes: []note{{"notifications/progress", `{"progressToken":TOKEN,"progress":0,"x":{"a":1e2}}`}},
		fault: `{ "x-first":` + wild + `,"code":-31999,"data":{"uri":"odd:\/\/gone","x":` + wild + `,"z":{"uri":"odd://untouched"}} ,"message":"\u0041\/é","x-last":1.0}`,
		refs:  []string{"data/uri"},
	},
	{
		name: "prompts/get", method: "prompts/get", item: "odd",
		params: func(n naming, meta string) string {
			return `{"arguments":{"a":"\u0041","":"\ud83d"},` + meta + `,"name":` + n.name("odd") + `,"x":` + tame + `}`
		},
		notes: []note{{"notifications/progress", `{"progress":1e2,"progressToken":TOKEN}`}},
		result: `{"description":"\u0041","x":` + wild + `,"messages":[{"role":"user","x":1e2,"content":{"type":"text","text":"","x":` + wild + `}},` +
			`{"content":{"type":"resource","annotations":{ "priority":1.0},"resource":{"uri":"odd://thing","blob":"","x":` + wild + `}},"role":"assistant"},{"role":"oracle","content":{"type":"hologram","uri":"odd://untouched"}},` +
			`{"role":"user","content":{"name":"x","uri":"odd://thing","type":"resource_link"}}],"_meta":{"x":-0}}`,
		refs:     []string{"messages/1/content/resource/uri", "messages/3/content/uri"},
		enriched: map[string]string{"messages/1/content/resource/annotations": `{ "priority":1.0}`},
	},
	{
		name: "resources/read", method: "resources/read", item: "odd://thing",
		params: func(n naming, meta string) string {
			return `{"uri":` + n.uri("odd://thing") + `, "x":` + tame + `,` + meta + `}`
		},
		notes: []note{{"notifications/message", `{"level":"critical","data":"\ud83d","x":1.0}`}},
		result: `{"x":` + wild + `,"contents":[{"text":"` + long + `","uri":"odd:\/\/thing" ,"x":` + wild + `,"_meta":{"uri":"odd://untouched"}},` +
			`{"uri":"odd://thing/part","blob":"AA==","mimeType":null}, {"uri":"https://example.com/","text":""}],"_meta":{"ui":{"resourceUri":"ui://untouched"}}}`,
		refs: []string{"contents/0/uri", "contents/1/uri"},
		enriched: map[string]string{
			"contents/0/name": `"odd"`, "contents/0/annotations": `{"priority":1e0,"audience":["user"],"x":` + wild + `}`,
			"contents/0/size": fmt.Sprint(8_000 * len("long é / ")), "contents/1/size": "1", "contents/2/size": "0",
		},
	},
	{
		name: "resources/read in the draft's form", method: "resources/read", item: "odd://dir/",
		params: func(n naming, meta string) string {
			return `{` + meta + `,"uri":` + n.uri("odd://dir/") + `}`
		},
		result: `{"contents":[{"uri":"odd://dir/1","name":"1","resourceType":"document","text":"a","x":1e2},{"resourceType":"x","uri":"odd://thing","blob":""},` +
			`{"uri":"odd://dir/2","text":"","capabilities":{"list":true,"subscribe":1e0}}]}`,
		refs: []string{"contents/0/uri", "contents/1/uri", "contents/2/uri"},
	},
	{
		name: "resources/metadata", method: "resources/metadata", item: "odd://dir/",
		params: func(n naming, meta string) string {
			return `{` + meta + `, "uri":` + n.uri("odd://dir/") + `,"x":` + tame + `}`
		},
		result: `{"x":` + wild + `,"resource":{"uri":"odd:\/\/dir/","mimeType":"inode/directory","capabilities":{"subscribe":1e0,"list":{}},"x":` + wild + `},"_meta":{}}`,
		refs:   []string{"resource/uri"},
	},
	{
		name: "resources/list of a collection", method: "resources/list", item: "odd://dir/",
		params: func(n naming, meta string) string {
			return `{"cursor":"\u0041",` + meta + `,"uri":` + n.uri("odd://dir/") + `,"x":` + tame + `}`
		},
		result: `{"x":` + wild + `,"nextCursor":"\u0042 9007199254740993","resources":[ {"uri":"odd://dir/1","name":"1","resourceType":"odd","x":` + wild + `} ,` +
			`{"name":"2","uri":"odd:\/\/dir/2","capabilities":{"list":1.0},"mimeType":"inode/directory"}],"_meta":{"x":-0}}`,
		refs: []string{"resources/0/uri", "resources/1/uri"},
	},
	{
		name: "resources/read by a template", method: "resources/read", item: "odd://a/b%20c?q=\u00fc",
		params: func(n naming, meta string) string {
			return `{` + meta + `,"uri":` + n.uri("odd://a/b%20c?q=\u00fc") + `}`
		},
		result:   `{"ttlMs":1e3,"cacheScope":"public","contents":[{"uri":"odd://a/b%20c?q=\u00fc","text":"\/"}],"resultType":"complete"}`,
		refs:     []string{"contents/0/uri"},
		enriched: map[string]string{"contents/0/size": "1"},
	},
	{
		name: "resources/read of a web address", method: "resources/read", item: "https://example.com/a?b=%20#c",
		params: func(n naming, meta string) string {
			return `{` + meta + `,"uri":` + n.uri("https://example.com/a?b=%20#c") + `}`
		},
		result:   `{"contents":[{"uri":"https:\/\/example.com/a?b=%20#c","text":"","x":1e2}]}`,
		enriched: map[string]string{"contents/0/name": `"web"`, "contents/0/size": "0"},
	},
	{
		name: "resources/read that fails", method: "resources/read", item: "odd://gone",
		params: func(n naming, meta string) string { return `{` + meta + `,"uri":` + n.uri("odd://gone") + `}` },
		fault:  `{"message":"gone","code":-32602,"data":{"x":1e2,"uri":"odd://gone","y":` + wild + `},"x":1.0}`,
		refs:   []string{"data/uri"},
	},
	{
		name: "resources/read of a missing resource", method: "resources/read", item: "odd://nowhere",
		params: func(n naming, meta string) string { return `{` + meta + `,"uri":` + n.uri("odd://nowhere") + `}` },
		fault:  `{"x":` + wild + `,"message":"\u0041" , "code" : -32002,"data":{"uri" : "odd:\/\/nowhere","y":1.0}}`,
		refs:   []string{"data/uri"},
	},
	{
		name: "completion/complete for a prompt", method: "completion/complete", item: "odd",
		params: func(n naming, meta string) string {
			return `{"ref":{"x":` + tame + `,"name":` + n.name("odd") + `,"type":"ref/prompt","title":"\u0041"},"argument":{"value":"","name":"a","x":1e2},` + meta + `,"context":{"arguments":{"":""},"x":-0}}`
		},
		result: `{"completion":{"x":` + wild + `,"total":1e2,"values":["\u0041","odd://untouched"],"hasMore":false},"x":` + wild + `}`,
	},
	{
		name: "completion/complete for a template", method: "completion/complete", item: "odd://{+path}{?q*}",
		params: func(n naming, meta string) string {
			return `{` + meta + `,"argument":{"name":"path","value":"\ud83d"},"ref":{"type":"ref/resource","uri":` + n.uri("odd://{+path}{?q*}") + `}}`
		},
		result: `{"completion":{"values":[]},"_meta":{}}`,
	},
}

// naming converts native names and URIs to those of one side: unchanged for the server, with the upstream's prefix for clients.
type naming struct{ upstream, prefix string }

func (n naming) name(native string) string {
	lead := ""
	if n.prefix != "" {
		lead = n.prefix + "__"
	}
	if native == awkward {
		sum := sha256.Sum256([]byte(native))
		native = "odd_name__h" + hex.EncodeToString(sum[:6])
	}
	return quote(lead + native)
}

// awkward is a tool name that some model providers reject.
const awkward = "odd name/ü"

func (n naming) uri(native string) string {
	rest, ui := strings.CutPrefix(native, "ui:")
	authority, isUI := strings.CutPrefix(native, "ui://")
	switch {
	case n.prefix == "", strings.HasPrefix(native, "https:"):
		return quote(native)
	case isUI:
		return quote("ui://" + n.upstream + "." + authority)
	case ui:
		return quote("ui://" + n.upstream + "~/" + rest)
	default:
		return quote(n.prefix + "+" + native)
	}
}

func quote(s string) string { return `"` + s + `"` } // no name in these tests needs an escape
