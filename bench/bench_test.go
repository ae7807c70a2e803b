package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve starts a role in this process and returns its URL.
func serve(t *testing.T, role, era, target string) string {
	t.Helper()
	stop, stopWriter := io.Pipe()
	readyReader, ready := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := serveRole(role, era, target, stop, ready)
		ready.CloseWithError(io.ErrUnexpectedEOF)
		ended <- err
	}()
	t.Cleanup(func() {
		stopWriter.Close()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", role, err)
		}
	})
	line, err := bufio.NewReader(readyReader).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not start", role)
	}
	return strings.TrimSpace(line)
}

func TestEachRoleAnswersCalls(t *testing.T) {
	for _, era := range []string{eraLegacy, eraModern} {
		for _, role := range []string{roleUpstream, roleReverse, roleTyped} {
			t.Run(era+" "+role, func(t *testing.T) {
				url := serve(t, roleUpstream, era, "")
				if role != roleUpstream {
					url = serve(t, role, era, url)
				}
				c, err := openClient(t.Context(), url, era, toolName, 7)
				if err != nil {
					t.Fatal(err)
				}
				defer c.close()
				if hasSession := strings.Contains(c.head, sessionHeader); hasSession != (era == eraLegacy) {
					t.Errorf("session: %t", hasSession)
				}
				for range 3 {
					if err := c.call(); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

func TestUpstreamRefuses(t *testing.T) {
	url := serve(t, roleUpstream, eraLegacy, "")
	tests := []struct {
		name, method, body string
		status             int
		contains           string
	}{
		{"another tool", "POST", `{"jsonrpc":"2.0","id":"a\"1","method":"tools/call","params":{"name":"x","arguments":{"nonce":"1"}}}`, 200, `{"jsonrpc":"2.0","id":"a\"1","error":{"code":-32602`},
		{"a nonce that would need escapes", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text","arguments":{"nonce":"\""}}}`, 200, `"code":-32602`},
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
	right := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%q}]}}`, id, answerText(nonce))
	tests := []struct {
		name, contentType, body, want string
	}{
		{"right", "application/json", right, ""},
		{"right with spaces", "application/json", strings.ReplaceAll(right, `":`, `": `), ""},
		{"right as a stream", "text/event-stream", "id: 1\ndata:\n\nevent: message\r\ndata: " + right + "\r\n\r\n", ""},
		{"another id", "application/json", strings.Replace(right, fmt.Sprint(id), "7", 1), "wrong answer: id 7, want 1000000000"},
		{"another call's text", "application/json", strings.Replace(right, nonce, "00000800000000000001", 1), "wrong answer: not the text"},
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
			c, err := openClient(t.Context(), server.URL, eraModern, toolName, 7)
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

// The failure of one client ends the round of all clients early.
func TestFailedCallFailsTheRound(t *testing.T) {
	failing := "00000100000000000003" // the third call of client 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), failing) {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		rawUpstream{}.ServeHTTP(w, r)
	}))
	defer server.Close()
	l := load{Era: eraModern, Clients: 4, Duration: time.Hour}
	_, err := l.run(t.Context(), path{Name: "x", URL: server.URL, Tool: toolName})
	if err == nil || err.Error() != "x: HTTP status 418, want 200: " {
		t.Errorf("got %v, want the status", err)
	}
}

// The whole program runs, with a process for each role but without the gateway.
func TestCompare(t *testing.T) {
	var report strings.Builder
	code := run(context.Background(), []string{"-only", "direct,reverse,typed", "-rounds", "1", "-duration", "1s", "-warmup", "0s", "-clients", "2"},
		strings.NewReader(""), &report, io.Discard)
	if code != 0 {
		t.Fatalf("exit status %d", code)
	}
	for _, p := range []string{pathDirect, pathReverse, pathTyped} {
		if !strings.Contains(report.String(), p) {
			t.Errorf("the report lacks %s:\n%s", p, report.String())
		}
	}
}

func TestUsage(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"-era", "stone"}, "bench: -era stone is neither legacy nor modern\n"},
		{[]string{"-only", "direct,warp"}, "bench: -only: \"warp\" is none of direct, reverse, typed, gateway\n"},
		{[]string{"-rounds", "0"}, "bench: -clients and -rounds must be between 1 and 1000\n"},
		{[]string{"-duration", "1h"}, "bench: -duration and -warmup must be at most a minute, -duration more than 0\n"},
		{[]string{"now"}, "bench: unexpected argument \"now\"\n"},
	}
	for _, tt := range tests {
		var stderr strings.Builder
		if code := run(t.Context(), tt.args, nil, io.Discard, &stderr); code != 2 || stderr.String() != tt.want {
			t.Errorf("%v: exit status %d, %q; want 2, %q", tt.args, code, stderr.String(), tt.want)
		}
	}
}
