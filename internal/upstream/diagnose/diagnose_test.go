package diagnose

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"mcpgateway/internal/upstream/process"
)

func TestProgram(t *testing.T) {
	exit := &process.ExitError{Err: errors.New("exit status 3"), Words: process.Words{Text: "KEY is not set"}}
	for name, tc := range map[string]struct {
		why  error
		want string
	}{
		"ended before initialize": {
			&HandshakeError{Err: exit},
			`the program "x" ended with exit status 3 before initialize; the last line of its standard error is "KEY is not set": fix that, and check its args and env`,
		},
		"ended later": {exit, `the program "x" ended with exit status 3; the last line of its standard error is "KEY is not set": it is started again`},
		"ended during a call": {
			&FailedCall{Err: exit, Hide: func(text string) string { return strings.ReplaceAll(text, "KEY", "[…]") }},
			`the program "x" ended with exit status 3 during the call; the last line of its standard error is "[…] is not set"`,
		},
		"ended during a call, all hidden": {&FailedCall{Err: exit, Hide: func(string) string { return "" }}, `the program "x" ended with exit status 3 during the call`},
		"closed its output during a call": {&FailedCall{Err: errors.New("the server closed its output")}, `the program "x": the server closed its output`},
		"a line too long":                 {&LineTooLongError{9}, `the program "x": the server wrote more than 9 bytes without the end of a line: it is started again; have its tools answer with less, and see that it prints nothing but MCP messages on standard output`},
		"too much memory": {
			&process.ExitError{Err: errors.New("signal: killed"), Memory: &process.MemoryError{Used: 600 << 20, Limit: 512 << 20}, Words: process.Words{Text: "loading"}},
			`the program "x" and the processes that it started were ended: it used 600 MiB of memory, and limits.memory allows 512 MiB; the last line of its standard error is "loading": raise limits.memory, or find out what they need it for`,
		},
		"too many files": {
			&process.ExitError{Err: errors.New("exit status 1"), Words: process.Words{Text: "Node.js v22"}, OutOfFiles: true},
			`the program "x" ended with exit status 1; the last line of its standard error is "Node.js v22"; it says that too many files were open, and limits.files allows 64: it is started again`,
		},
		"ended by the gateway": {
			&EndedError{Err: errors.New("the server hangs"), Words: process.Words{Text: "Error: no key", Error: true}},
			`the program "x": the server hangs; its standard error says "Error: no key"`,
		},
		"printed something": {&HandshakeError{Err: errors.New("why"), NonProtocolOutput: true}, `the program "x" prints text that is no MCP message (why): ` + CheckStdio},
	} {
		if got := Program(process.Config{Command: "x", Limits: process.Limits{Memory: 512 << 20, Files: 64}}, tc.why); got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRemote(t *testing.T) {
	const refused = "mcp.test ends the connection after the handshake of TLS: it may ask for a client certificate, which you name under client_cert"
	s := RemoteServer{URL: &url.URL{Scheme: "https", User: url.UserPassword("me", "hunter-22"), Host: "mcp.test", Path: "/mcp"}}
	for want, why := range map[string]error{
		"nothing listens on mcp.test:443: start the server, or check the host and port of url":                    syscall.ECONNREFUSED,
		"https://mcp.test/mcp answered HTTP 200 with an odd content type and not with MCP: check the path of url": &UnexpectedContentType{200, "a b"},
		refused: errors.New("http2: client conn could not be established"),
		"mcp.test does not answer in HTTP/1.1: check the host and port of url; if it speaks TLS, write https://":                                                errors.New("malformed HTTP response"),
		"https://mcp.test/mcp does not answer in time: check that the server is at work there, that no firewall is in between, and raise timeout if it is slow": ErrHandshakeTimeout,
	} {
		if got := Remote(s, why); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, why := range []error{syscall.EPIPE, syscall.ECONNRESET} {
		if got := Remote(s, &net.OpError{Op: "write", Err: why}); got != refused {
			t.Errorf("%v: got %s", why, got)
		}
		clear := RemoteServer{URL: &url.URL{Scheme: "http", Host: "mcp.test"}}
		if got := Remote(clear, why); !strings.Contains(got, "write https:// in url") {
			t.Errorf("%v without TLS: got %s", why, got)
		}
	}
}

// The words of a server about a call may have arguments of the call, and its request id may be that of the call.
func TestRemoteRefusesACall(t *testing.T) {
	s := RemoteServer{URL: &url.URL{Scheme: "http", Host: "h"}, Mask: func(text string) string { return strings.ReplaceAll(text, "hunter-22", "[redacted]") }}
	const advice = ": check url and headers against the server's documentation"
	for name, tc := range map[string]struct {
		request, hide, want string
	}{
		"quoted":          {"r1", "diary", `http://h answered HTTP 400 ("no […] for [redacted]")` + advice + " (request S-1)"},
		"its own id":      {"S-1", "diary", `http://h answered HTTP 400 ("no […] for [redacted]")` + advice},
		"nothing is said": {"r1", "", "http://h answered HTTP 400" + advice + " (request S-1)"},
	} {
		call := &FailedCall{Err: refused("no diary for hunter-22"), Request: tc.request, Hide: func(text string) string {
			if tc.hide == "" {
				return ""
			}
			return strings.ReplaceAll(text, tc.hide, "[…]")
		}}
		if got := Remote(s, call); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestNonProtocolOutput(t *testing.T) {
	mask := func(s string) string { return strings.ReplaceAll(s, "hunter-22", "[redacted]") }
	got := NonProtocolOutput([]byte(strings.Repeat("x", MaxExcerpt-4)+"hunter-22"), mask)
	if strings.Contains(got, "hunt") || !strings.Contains(got, CheckStdio) {
		t.Error(got)
	}
}

// refused is an HTTPError with a message of the server.
type refused string

func (r refused) Error() string         { return string(r) }
func (refused) StatusCode() int         { return 400 }
func (refused) UsesOAuth() bool         { return false }
func (refused) MissingScopes() []string { return nil }
func (refused) WantsTLS() bool          { return false }
func (refused) ServerRequestID() string { return "S-1" }
func (r refused) ServerMessage() string { return string(r) }

// A secret is masked before a message is cut, so that no part of it is left.
func TestMessagesAreMaskedWhole(t *testing.T) {
	s := RemoteServer{URL: &url.URL{Scheme: "http", Host: "127.0.0.1"}, Mask: func(text string) string {
		return strings.ReplaceAll(text, "hunter-22", "[redacted]")
	}}
	if got := Remote(s, refused(strings.Repeat("x", 195)+"hunter-22")); strings.Contains(got, "hunt") || !strings.Contains(got, "xxx") {
		t.Error(got)
	}
}
