package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Messages of the sizes that the gateway sees most.

// requestOf makes a tools/call request of about size bytes.
func requestOf(size int) []byte {
	const head = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"files__search","arguments":{"path":"/data/reports","limit":20,"query":"`
	const tail = `"},"_meta":{"progressToken":"p-17","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	return []byte(head + strings.Repeat("needle in hay, ", max(0, size-len(head)-len(tail))/15) + tail)
}

// textResultOf makes the result of a tool that answers with one text of about
// size bytes, with the escapes that source code has.
func textResultOf(size int) []byte {
	const line = `func main() { fmt.Println(\"hello\", 42) }\n`
	return []byte(`{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"` +
		strings.Repeat(line, size/len(line)) + `"}],"isError":false}}`)
}

// plainResultOf makes the result of a tool that answers with 1 MiB of this text.
func plainResultOf(text string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"` + strings.Repeat(text, 1<<20/len(text)) + `"}],"isError":false}}`)
}

// listResultOf makes a tools/list result of about size bytes: many small
// members, the hardest to walk.
func listResultOf(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":17,"result":{"tools":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"Reads a thing.","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer","minimum":0}},"required":["a"]}}`, i)
	}
	b.WriteString(`]}}`)
	return b.Bytes()
}

func BenchmarkParse(b *testing.B) {
	for _, bc := range []struct {
		name  string
		data  []byte
		parse func([]byte, Limits) (Message, error)
	}{
		{"request/1KiB", requestOf(1 << 10), Parse},
		{"text/1KiB", textResultOf(1 << 10), ParseUpstream},
		{"text/50KiB", textResultOf(50 << 10), ParseUpstream},
		{"plain/1MiB", plainResultOf("The quick brown fox. "), ParseUpstream},
		{"unicode/1MiB", plainResultOf("Größe und Länge: 漢字。"), ParseUpstream},
		{"escapes/1MiB", plainResultOf(`\"\\\n\t\u00e9`), ParseUpstream},
		{"list/50KiB", listResultOf(50 << 10), ParseUpstream},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bc.data)))
			for b.Loop() {
				if _, err := bc.parse(bc.data, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	m, err := ParseUpstream(textResultOf(1<<10), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 4<<10)
	b.ReportAllocs()
	for b.Loop() {
		buf = m.Append(buf[:0])
	}
}

// One call's worth of editing: another name, another progress token.
func BenchmarkEdit(b *testing.B) {
	m, err := Parse(requestOf(1<<10), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	token := Raw("9001")
	b.ReportAllocs()
	for b.Loop() {
		e := NewEdit(m.Params)
		root := e.Root()
		e.ReplaceString(root.Get("name"), "search")
		e.Set(root.Get("_meta"), MetaProgressToken, token)
		if len(e.Bytes()) == 0 {
			b.Fatal("empty")
		}
	}
}

// Renaming every tool of a list, as the control loop does.
func BenchmarkEditList(b *testing.B) {
	m, err := ParseUpstream(listResultOf(50<<10), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(m.Result)))
	for b.Loop() {
		e := NewEdit(m.Result)
		for tool := range e.Root().Get("tools").Elements() {
			e.ReplaceString(tool.Get("name"), "x")
		}
		if len(e.Bytes()) == 0 {
			b.Fatal("empty")
		}
	}
}

func BenchmarkSSE(b *testing.B) {
	for _, size := range []int{1 << 10, 50 << 10} {
		b.Run(fmt.Sprintf("read/%dKiB", size>>10), func(b *testing.B) {
			frame := AppendEvent(nil, Event{ID: "1", HasID: true, Data: textResultOf(size)})
			src := bytes.NewReader(nil)
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				src.Reset(frame)
				if _, err := NewSSEReader(src, 1<<20).Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("write/%dKiB", size>>10), func(b *testing.B) {
			ev := Event{ID: "1", HasID: true, Data: textResultOf(size)}
			buf := make([]byte, 0, 64<<10)
			b.ReportAllocs()
			b.SetBytes(int64(len(ev.Data)))
			for b.Loop() {
				buf = AppendEvent(buf[:0], ev)
			}
		})
	}
}

func BenchmarkLine(b *testing.B) {
	msg := textResultOf(50 << 10)
	buf := make([]byte, 0, 64<<10)
	b.Run("write/50KiB", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(msg)))
		for b.Loop() {
			buf = AppendLine(buf[:0], msg)
		}
	})
}

func BenchmarkGet(b *testing.B) {
	params := ValueOf(Raw(`{"name":"files__search","arguments":{"path":"/data/reports","limit":20,"query":"needle in hay"},"_meta":{"progressToken":"p-17"}}`))
	result := ValueOf(Raw(textResultOf(1 << 10))).Get("result")
	modern := ValueOf(Raw(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"editor","version":"1.20.3"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}},"name":"files__search","arguments":{"path":"/data/reports"}}`))
	for name, get := range map[string]func() Value{
		"first":  func() Value { return params.Get("name") },
		"deep":   func() Value { return params.Get("arguments", "query") },
		"absent": func() Value { return params.Get("arguments", "nothing") },
		"result": func() Value { return result.Get("isError") },
		"modern": func() Value { return modern.Get("arguments") },
		"meta":   func() Value { return modern.Get("_meta", MetaClientCapabilities) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				get()
			}
		})
	}
}
