package frontend

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// Requests in an unusual form are served if they are unambiguous, and refused if two
// readers could understand them differently.
func TestRawRequests(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), LoopbackListener: true})
	web := httptest.NewServer(s)
	defer web.Close()
	post := func(line, more, body string) string {
		return fmt.Sprintf("%s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", line, more, len(body), body)
	}
	const host, first = "Host: localhost\r\n", "POST /mcp HTTP/1.1"
	for _, tt := range []struct {
		name, sent string
		want       []int // the statuses of the responses
	}{
		{"decent", post(first, host, pingBody), []int{200}},
		{"pipelined", post(first, host, pingBody) + post(first, host, pingBody) + post(first, host, "["), []int{200, 200, 400}},
		{"two lengths that differ", post(first, host+"Content-Length: 5\r\n", pingBody), []int{400}},
		{"a list of lengths", strings.Replace(post(first, host, pingBody), "Length: ", "Length: 40, ", 1), []int{400}},
		{"chunks and a length", post(first, host+"Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(pingBody), pingBody)), []int{200}},
		{"another transfer coding", post(first, host+"Transfer-Encoding: gzip, chunked\r\n", pingBody), []int{501}},
		{"space before a colon", post(first, host+"Mcp-Method : ping\r\n", pingBody), []int{400}},
		{"no Host", post(first, "", pingBody), []int{400}},
		{"two Hosts", post(first, host+host, pingBody), []int{400}},
		{"HTTP/1.0", post("POST /mcp HTTP/1.0", host, pingBody), []int{200}},
		{"HTTP/1.0 without Host", post("POST /mcp HTTP/1.0", "", pingBody), []int{403}},
		{"URL in place of the path", post("POST http://localhost/mcp HTTP/1.1", "Host: evil.example\r\n", pingBody), []int{200}},
		{"URL of another host", post("POST http://evil.example/mcp HTTP/1.1", host, pingBody), []int{403}},
		{"two origins", post(first, host+"Origin: http://localhost\r\nOrigin: http://evil.example\r\n", pingBody), []int{403}},
		{"empty origin", post(first, host+"Origin:\r\n", pingBody), []int{403}},
		{"two sessions", post(first, host+"Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n", pingBody), []int{400}},
		{"empty session", post(first, host+"Mcp-Session-Id:\r\n", pingBody), []int{404}},
		{"folded session", post(first, host+"Mcp-Session-Id: a\r\n b\r\n", pingBody), []int{404}},
		{"asks first", post(first, host+"Expect: 100-continue\r\n", pingBody), []int{100, 200}},
		{"asks first and is refused", post(first, host+"Expect: 100-continue\r\nOrigin: null\r\n", pingBody), []int{403}},
		{"header without end", post(first, host+"X: "+strings.Repeat("x", 2<<20)+"\r\n", pingBody), []int{431}},
		{"HEAD", "HEAD /mcp HTTP/1.1\r\n" + host + "\r\n", []int{405}},
		{"CONNECT", "CONNECT /mcp HTTP/1.1\r\n" + host + "\r\n", []int{405}},
		{"PATCH with a body, then another request", post("PATCH /mcp HTTP/1.1", host, pingBody) + post(first, host, pingBody), []int{405, 200}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", web.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go io.WriteString(conn, tt.sent) // the server may stop reading early
			answers := bufio.NewReader(conn)
			method, _, _ := strings.Cut(tt.sent, " ")
			for i, want := range tt.want {
				resp, err := http.ReadResponse(answers, &http.Request{Method: method})
				if err != nil {
					t.Fatalf("answer %d: %v", i, err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != want {
					t.Errorf("answer %d: status %d, %s, %v; want %d", i, resp.StatusCode, body, err, want)
				}
			}
		})
	}
}

// An event stream over HTTP/1.0 ends with the connection.
func TestStreamOverHTTP10(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), LoopbackListener: true})
	web := httptest.NewServer(s)
	defer web.Close()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress"}}`
	fmt.Fprintf(conn, "POST /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	got, err := io.ReadAll(conn)
	if err != nil || strings.Contains(string(got), "chunked") || !strings.HasSuffix(string(got), "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n") {
		t.Errorf("%v, %q", err, got)
	}
}
