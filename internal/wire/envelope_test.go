package wire

import (
	"strings"
	"testing"
)

func TestScanEnvelope(t *testing.T) {
	long := strings.Repeat("x", maxID)
	for _, tt := range []struct{ name, text, request, response string }{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, `1`, ``},
		{"id at the end", ` { "method" : "m" , "params" : {"id":7,"a":[{"id":8}]} , "id" : "a\u0062" } `, `"a\u0062"`, ``},
		{"cut off in the params", `{"jsonrpc":"2.0","id":-1.5e3,"method":"m","params":{"a":"xxx`, `-1.5e3`, ``},
		{"cut off in the id", `{"method":"m","id":12`, ``, ``},
		{"cut off in a string id", `{"method":"m","id":"12`, ``, ``},
		{"escaped key", `{"method":"m","\u0069d":1,"x":2}`, `1`, ``},
		{"key in another case", `{"method":"m","ID":1}`, ``, ``},
		{"id twice", `{"id":1,"method":"m","id":2}`, ``, ``},
		{"id in a string", `{"method":"m","a":"\",\"id\":1,\"","b":{}}`, ``, ``},
		{"null id", `{"id":null,"method":"m"}`, ``, ``},
		{"object for an id", `{"id":{"id":1},"method":"m"}`, ``, ``},
		{"malformed id", `{"id":01,"method":"m"}`, ``, ``},
		{"bad UTF-8 in the id", "{\"id\":\"\xff\",\"method\":\"m\"}", ``, ``},
		{"bad UTF-8 elsewhere", "{\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"\xff\"}}", `1`, ``},
		{"as long as can be", `{"id":"` + long[2:] + `","method":"m"}`, `"` + long[2:] + `"`, ``},
		{"too long", `{"id":"` + long + `","method":"m"}`, ``, ``},
		{"result", `{"id":1,"result":{"method":"m"}}`, ``, `1`},
		{"error", `{"error":{"code":1,"message":"x"},"id":"a"}`, ``, `"a"`},
		{"result that is cut off", `{"id":1,"result":{"x":[`, ``, ``},
		{"method and result", `{"id":1,"method":"m","result":1}`, ``, ``},
		{"notification", `{"method":"m"}`, ``, ``},
		{"no method", `{"id":1}`, ``, ``},
		{"empty method", `{"id":1,"method":""}`, ``, ``},
		{"method that is no string", `{"id":1,"method":7}`, ``, ``},
		{"malformed after the id", `{"id":1,"method":"m","params":{bad`, `1`, ``},
		{"malformed before the id", `{"params":{bad},"id":1,"method":"m"}`, ``, ``},
		{"brackets crossed before the id", `{"params":{"a":1],"id":1,"method":"m"}`, ``, ``},
		{"string without its end before the id", `{"params":{"a":"b},"id":1,"method":"m"}`, ``, ``},
		{"line break in a string before the id", "{\"params\":\"a\nb\",\"id\":1,\"method\":\"m\"}", ``, ``},
		{"no comma before the id", `{"method":"m" "id":1}`, ``, ``},
		{"what comes after the message", `{"id":1,"method":"m"}{"id":2,"result":1}`, `1`, ``},
		{"too deep to be followed", `{"params":` + strings.Repeat("[", 2*maxDepth) + strings.Repeat("]", 2*maxDepth) + `,"id":1,"method":"m"}`, ``, ``},
		{"batch", `[{"id":1,"method":"m"}]`, ``, ``},
		{"no JSON", `hello`, ``, ``},
		{"nothing", ``, ``, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pieces := new(EnvelopeScanner)
			for i := range len(tt.text) {
				pieces.Write([]byte{tt.text[i]})
			}
			for _, g := range []*EnvelopeScanner{ScanEnvelope([]byte(tt.text)), pieces} {
				if got := g.RequestID().String(); got != tt.request {
					t.Errorf("request %q, want %q", got, tt.request)
				}
				if got := g.ResponseID().String(); got != tt.response {
					t.Errorf("response %q, want %q", got, tt.response)
				}
			}
		})
	}
}

// The scanner and the parser agree about a valid message.
func FuzzScanEnvelope(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m"}`, `{"jsonrpc":"2.0","result":{},"id":"a"}`, `{"id":1,"x":{"id":[2]}}`, `{"\u0069d":1e3,"method":"\""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseUpstream(data, Limits{})
		if err != nil {
			return
		}
		g := ScanEnvelope(data)
		want, got := m.ID, g.RequestID()
		if m.IsResponse() {
			want, got = m.ID, g.ResponseID()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", data, got, want)
		}
	})
}
