package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve starts a role in this process and returns its URL.
func serve(t *testing.T, r role) string {
	t.Helper()
	stop, stopWriter := io.Pipe()
	readyReader, ready := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := serveRole(r, stop, ready)
		ready.CloseWithError(io.ErrUnexpectedEOF)
		ended <- err
	}()
	t.Cleanup(func() {
		stopWriter.Close()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", r.Kind, err)
		}
	})
	line, err := bufio.NewReader(readyReader).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not start", r.Kind)
	}
	return strings.TrimSpace(line)
}

func targetAt(url, era string, size int) *target {
	return &target{URL: url, Era: era, Tools: []string{toolName}, callArguments: callArguments{Size: size}}
}

func TestEachRoleAnswersCalls(t *testing.T) {
	for _, era := range []string{eraLegacy, eraModern} {
		for _, kind := range []string{roleUpstream, roleReverse, roleTyped} {
			t.Run(era+" "+kind, func(t *testing.T) {
				url := serve(t, role{Kind: roleUpstream})
				if kind != roleUpstream {
					url = serve(t, role{Kind: kind, Era: era, Target: url})
				}
				for _, size := range []int{100, 1 << 10, maxAnswer} {
					for _, sse := range []bool{false, true} {
						to := targetAt(url, era, size)
						to.SSE = sse
						c, err := openClient(t.Context(), to, 7)
						if err != nil {
							t.Fatal(err)
						}
						defer c.close()
						if hasSession := strings.Contains(c.head, sessionHeader); hasSession != (era == eraLegacy) {
							t.Errorf("session: %t", hasSession)
						}
						for range 3 {
							if err := c.call(); err != nil {
								t.Fatalf("%d bytes, events %t: %v", size, sse, err)
							}
						}
					}
				}
			})
		}
	}
}

func TestUpstreamRefuses(t *testing.T) {
	url := serve(t, role{Kind: roleUpstream})
	tests := []struct {
		name, method, body string
		status             int
		contains           string
	}{
		{"another tool", "POST", `{"jsonrpc":"2.0","id":"a\"1","method":"tools/call","params":{"name":"x","arguments":{"nonce":"1","size":100}}}`, 200, `{"jsonrpc":"2.0","id":"a\"1","error":{"code":-32602`},
		{"a nonce that would need escapes", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text","arguments":{"nonce":"\"","size":100}}}`, 200, `"code":-32602`},
		{"a size over the maximum", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text","arguments":{"nonce":"1","size":9999999}}}`, 200, `"code":-32602`},
		{"another method", "POST", `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, 200, `"code":-32601`},
		{"no JSON", "POST", `{`, 400, ""},
		{"a stream", "GET", ``, 405, ""},
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, url, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(body), tt.contains) {
				t.Errorf("%d %s, %v; want %d with %s", resp.StatusCode, body, err, tt.status, tt.contains)
			}
		})
	}
}

// A run fails when any answer of the load is wrong.
func TestWrongAnswersFailTheRun(t *testing.T) {
	const nonce, id = "00000700000000000001", firstID
	right := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%q}]}}`, id, answerText(nonce, 100))
	tests := []struct {
		name, contentType, body, want string
	}{
		{"right", "application/json", right, ""},
		{"right with spaces", "application/json", strings.ReplaceAll(right, `":`, `": `), ""},
		{"right as a stream", "text/event-stream", "id: 1\ndata:\n\nevent: message\r\ndata: " + right + "\r\n\r\n", ""},
		{"another id", "application/json", strings.Replace(right, fmt.Sprint(id), "7", 1), "wrong answer: id 7, want 1000000000"},
		{"another call's text", "application/json", strings.Replace(right, nonce, "00000800000000000001", 1), "wrong answer: not the text"},
		{"a text that is too short", "application/json", strings.Replace(right, `"}]`, `"}]`, 1)[:len(right)-6] + `"}]}}`, "wrong answer: not the text"},
		{"a failed tool", "application/json", strings.Replace(right, `"content"`, `"isError":true,"content"`, 1), "wrong answer: not the text"},
		{"an error", "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"no"}}`, id), "wrong answer: error"},
		{"nothing", "application/json", "", "wrong answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				io.WriteString(w, tt.body)
			}))
			defer server.Close()
			c, err := openClient(t.Context(), targetAt(server.URL, eraModern, 100), 7)
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			err = c.call()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// The failure of one client ends the measurement early.
func TestFailedCallFailsTheMeasurement(t *testing.T) {
	failing := "00000100000000000003" // the third call of client 1
	upstream := newRawUpstream(role{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), failing) {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		upstream.ServeHTTP(w, r)
	}))
	defer server.Close()
	l := load{Clients: 4, Duration: time.Hour}
	_, err := l.run(t.Context(), 0, targetAt(server.URL, eraModern, 100).opener())
	if err == nil || err.Error() != "HTTP status 418, want 200: " {
		t.Errorf("got %v, want the status", err)
	}
}

// A client that cannot connect fails the measurement too.
func TestNobodyListens(t *testing.T) {
	address, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	_, err = load{Clients: 4, Duration: time.Second}.run(t.Context(), 0, targetAt("http://"+address, eraLegacy, 100).opener())
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, want a refused connection", err)
	}
}

// A page of a list must be a list with the id of the request.
func TestWrongPagesFail(t *testing.T) {
	tools := `"tools":[{"name":"a"},{"name":"b"}]`
	for body, wrong := range map[string]bool{
		`{"jsonrpc":"2.0","id":7,"result":{` + tools + `}}`:              false,
		`{"jsonrpc":"2.0","id":8,"result":{` + tools + `}}`:              true,
		`{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}`:                 true,
		`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"x"}}`: true,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) }))
		c, err := pages{Via: pathFiles}.opener(&target{URL: server.URL + "/page"})(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.call(); (err != nil) != wrong {
			t.Errorf("%s: %v", body, err)
		}
		c.close()
		server.Close()
	}
}
