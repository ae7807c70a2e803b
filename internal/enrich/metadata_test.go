package enrich

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// listedResources are list items by URI.
var listedResources = map[string]wire.Raw{
	"x+a:full": wire.Raw(`{"uri":"x+a:full","name":"full","title":"T","description":"D","icons":[{"src":"i"}],"annotations":{"priority":0.5},` +
		`"mimeType":"text/plain","size":999,"resourceType":"document","_meta":{"k":1},"other":true}`),
	"x+a:bare":  wire.Raw(`{"uri":"x+a:bare","name":"bare"}`),
	"x+a:later": wire.Raw(`{"uri":"x+a:later","name":"later","capabilities":{"list":true}}`),
	"x+a:odd":   wire.Raw(`{"uri":"x+a:odd","name":"odd","title":null,"icons":"i","annotations":[],"description":7,"resourceType":{}}`),
}

func describeListed(uri string) wire.Raw { return listedResources[uri] }

func TestReadResult(t *testing.T) {
	const full = `"name":"full","title":"T","description":"D","icons":[{"src":"i"}],"annotations":{"priority":0.5},`
	for _, tc := range []struct{ name, in, want string }{
		{
			"everything is missing", `{"uri":"x+a:full","text":"añb"}`,
			`{"uri":"x+a:full","text":"añb",` + full + `"size":4,"resourceType":"document"}`,
		},
		{
			"what the upstream says stays", `{"uri":"x+a:full","text":"","title":"","annotations":null,"size":7}`,
			`{"uri":"x+a:full","text":"","title":"","annotations":null,"size":7,"name":"full","description":"D","icons":[{"src":"i"}],"resourceType":"document"}`,
		},
		{
			"formats: each has its own size and type", `{"uri":"x+a:full","mimeType":"application/pdf","blob":"AAECAw=="},{"uri":"x+a:full","text":"abc"}`,
			`{"uri":"x+a:full","mimeType":"application/pdf","blob":"AAECAw==",` + full + `"size":4,"resourceType":"document"},` +
				`{"uri":"x+a:full","text":"abc",` + full + `"size":3,"resourceType":"document"}`,
		},
		{"a child has its own metadata", `{"uri":"x+a:bare","text":"abc"}`, `{"uri":"x+a:bare","text":"abc","name":"bare","size":3}`},
		{"no list has it", `{"uri":"x+a:none","text":"abc"}`, `{"uri":"x+a:none","text":"abc","size":3}`},
		{
			"a directory", `{"uri":"x+a:bare","mimeType":"inode/directory","text":""}`,
			`{"uri":"x+a:bare","mimeType":"inode/directory","text":"","name":"bare","size":0,"resourceType":"collection"}`,
		},
		{"the draft", `{"uri":"x+a:full","resourceType":"collection","text":"abc"}`, `{"uri":"x+a:full","resourceType":"collection","text":"abc"}`},
		{"the draft, later", `{"uri":"x+a:full","capabilities":{},"text":"abc"}`, `{"uri":"x+a:full","capabilities":{},"text":"abc"}`},
		{"what lists have is no metadata", `{"uri":"x+a:odd","text":"abc"}`, `{"uri":"x+a:odd","text":"abc","name":"odd","size":3}`},
		{"without a body there is no size", `{"uri":"x+a:bare"}`, `{"uri":"x+a:bare","name":"bare"}`},
		{"null beside the body", `{"uri":"x+a:bare","text":"ab","blob":null}`, `{"uri":"x+a:bare","text":"ab","blob":null,"name":"bare","size":2}`},
		{"a blob that is none", `{"uri":"x+a:bare","blob":"a"}`, `{"uri":"x+a:bare","blob":"a","name":"bare"}`},
		{"no URI", `{"text":"abc"},{"uri":7,"text":"abc"},{}`, `{"text":"abc","size":3},{"uri":7,"text":"abc","size":3},{}`},
		{"no contents", `1,null,[],"text"`, `1,null,[],"text"`},
		{"spelled with escapes", `{"\u0075ri":"x+a\u003abare","te\u0078t":"abc","n\u0061me":"own"}`, `{"\u0075ri":"x+a\u003abare","te\u0078t":"abc","n\u0061me":"own","size":3}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := wire.Raw(`{ "contents" : [` + tc.in + `] , "_meta":{"a":1.0}}`)
			want := `{ "contents" : [` + tc.want + `] , "_meta":{"a":1.0}}`
			got := ReadResult(in, describeListed)
			if string(got) != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if again := ReadResult(got, describeListed); !bytes.Equal(again, got) {
				t.Errorf("not settled: %s", again)
			}
			if tc.in == tc.want && &got[0] != &in[0] {
				t.Error("a result without a change was copied")
			}
		})
	}
}

func TestSizes(t *testing.T) {
	for _, text := range []string{
		"", "plain", "añb", "日本", "😀", "\n\t\\\"/", "\x7f\u0080\u07ff\u0800\uffff", strings.Repeat("é\n", 100),
	} {
		quoted, _ := json.Marshal(text)
		for _, written := range []string{string(quoted), asEscapes(text)} {
			if got := content.TextSize(wire.ValueOf(wire.Raw(written))); got != len(text) {
				t.Errorf("the size of %s is %d, want %d", written, got, len(text))
			}
		}
	}
	for written, want := range map[string]int{`"\ud83d"`: 3, `"\ude00\ud83d"`: 6, `"\ud83dx"`: 4, `"\/"`: 1, `"\b\f\r"`: 3} {
		if got := content.TextSize(wire.ValueOf(wire.Raw(written))); got != want {
			t.Errorf("the size of %s is %d, want %d", written, got, want)
		}
	}
	for n := range 70 {
		data := bytes.Repeat([]byte{0xfb, 0xff, 0x3e}, 30)[:n]
		std := base64.StdEncoding.EncodeToString(data)
		for _, written := range []string{
			std, base64.RawStdEncoding.EncodeToString(data), base64.URLEncoding.EncodeToString(data), strings.ReplaceAll(std, "/", `\/`),
			strings.Join(strings.SplitAfter(std, "A"), `\r\n`), " " + std + " ",
		} {
			if got, ok := content.Base64Size(wire.ValueOf(wire.Raw(`"` + written + `"`))); got != n || !ok {
				t.Errorf("the size of %q is %d, %v, want %d", written, got, ok, n)
			}
		}
	}
	for _, written := range []string{`"A"`, `"AAAAAAAAA"`, `"AA=A"`, `"====="`, `"AAé="`, `"AA\u003d\u003d"`, `"data:,"`, `{}`, `7`} {
		if got, ok := content.Base64Size(wire.ValueOf(wire.Raw(written))); ok {
			t.Errorf("%s is of %d bytes", written, got)
		}
	}
}

// asEscapes writes every character as an escape.
func asEscapes(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04X\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	b.WriteByte('"')
	return b.String()
}

func TestTyped(t *testing.T) {
	for in, want := range map[string]string{
		`{"uri":"a:","mimeType":"inode/directory"}`:                        `{"uri":"a:","mimeType":"inode/directory","resourceType":"collection"}`,
		`{"uri":"a:","mimeType":"inode\u002fdirectory"}`:                   `{"uri":"a:","mimeType":"inode\u002fdirectory","resourceType":"collection"}`,
		`{"uri":"a:","mimeType":"inode/directory","resourceType":"other"}`: ``,
		`{"uri":"a:","mimeType":"inode/directory","capabilities":{}}`:      ``,
		`{"uri":"a:","mimeType":"inode/file","title":"inode/directory"}`:   ``,
		`{"uri":"a:/","mimeType":"text/plain"}`:                            ``,
		`{"uri":"a:/","name":"a directory by its name only, as many are"}`: ``,
		`{"uri":"a:/","annotations":{"mimeType":"inode/directory"}}`:       ``,
		`{"uri":"a:/","mimeType":["inode/directory"]}`:                     ``,
	} {
		if want == "" {
			want = in
		}
		if got := ListItem(wire.Raw(in)); string(got) != want {
			t.Errorf("%s became %s", in, got)
		}
	}
}

func BenchmarkContents(b *testing.B) {
	for name, body := range map[string]string{
		"text of 1 KiB":  `"text":"` + strings.Repeat("lorem ipsum dolor\\n", 57) + `"`,
		"text of 64 KiB": `"text":"` + strings.Repeat("lorem ipsum dolor\\n", 57*64) + `"`,
		"blob of 1 MiB":  `"blob":"` + strings.Repeat("iVBORw0K", 1<<17) + `"`,
	} {
		in := wire.Raw(`{"contents":[{"uri":"x+a:full","mimeType":"text/plain",` + body + `}]}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				ReadResult(in, describeListed)
			}
		})
	}
}
