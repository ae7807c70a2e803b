package raw

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The bytes of an answer arrive unchanged, in both forms of an answer.
func TestTextArrivesUnchanged(t *testing.T) {
	const response = "{\"jsonrpc\":\"2.0\", \"id\" : 1,\n\"result\":{ \"\\u0041\":1e2,\n \"a\":1,\"a\":2},\"x\":-0}"
	const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{"data": 1.0}}`
	for _, test := range []struct{ name, kind, body string }{
		{"one body", "application/json", response},
		{"a stream", "text/event-stream", ": hello\n\ndata: " + note + "\n\nid: 1\nevent: message\n" +
			"data: {\"jsonrpc\":\"2.0\", \"id\" : 1,\ndata: \"result\":{ \"\\u0041\":1e2,\ndata:  \"a\":1,\"a\":2},\"x\":-0}\n\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				io.WriteString(w, test.body)
			}))
			defer server.Close()
			c, err := Open(t.Context(), server.URL, Modern)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Send(t.Context(), "tools/list", `{}`)
			if err != nil {
				t.Fatal(err)
			}
			if got.Response.Text != response {
				t.Errorf("the response is\n%q\nwant\n%q", got.Response.Text, response)
			}
			if x := got.Response.Member("result") + got.Response.Member("x"); x != "{ \"\\u0041\":1e2,\n \"a\":1,\"a\":2}-0" {
				t.Errorf("members %q", x)
			}
			if test.kind == "text/event-stream" && (len(got.Before) != 1 || got.Before[0].Text != note) {
				t.Errorf("messages before the response %v, want the notification", got.Before)
			}
		})
	}
}

func TestModernRequestsRepeatTheirNameInHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%q}`, r.Header.Get("Mcp-Method")+" "+r.Header.Get("Mcp-Name"))
	}))
	defer server.Close()
	c, err := Open(t.Context(), server.URL, Modern)
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]string{
		"tools/call":     `"tools/call a"`,
		"resources/read": `"resources/read =?base64?w7w=?="`,
		"tools/list":     `"tools/list "`,
	} {
		m, err := c.Call(t.Context(), method, `{"name":"a","uri":"ü"}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Member("result"); got != want {
			t.Errorf("%s: headers %s, want %s", method, got, want)
		}
	}
}
