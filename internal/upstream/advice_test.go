package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/transport/inproc"
	"mcpgateway/internal/upstream/transport/line"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// failureMessages returns the advice that the log gives for the first failed attempt
// and the reason that clients get.
func failureMessages(t *testing.T, o Options) (advice, reason string) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	o.Logger = zap.New(core)
	r := start(t, o)
	reason = r.watch.wait(t, isDown).Reason
	entries := logs.FilterMessage("no connection").All()
	if len(entries) == 0 {
		t.Fatal("the log has no line about the failed connection")
	}
	advice, _ = entries[0].ContextMap()["why"].(string)
	return advice, reason
}

func TestAdviceForPrograms(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o600)
	orphan := file("orphan", "#!/nowhere/interpreter\n", 0o700)
	blank := file("blank", "\x7fELF?", 0o700)
	const check = "check that it is an MCP server which speaks over standard input and output"
	const cannot = "cannot start the server's program"
	const mute = "the server did not introduce itself within 2s"
	for name, test := range map[string]struct {
		command        string
		args           []string
		dir            string
		advice, reason string
	}{
		"not in PATH":  {"npxx", nil, "", `there is no program "npxx" in the folders of PATH: install it, give its whole path as command, or add its folder to PATH under env`, cannot},
		"command line": {"npxx -y it", nil, "", `there is no program "npxx -y it" in the folders of PATH: if those are a program and its arguments, make "npxx" the command and begin args with ["-y", "it"]`, cannot},
		"no file":      {"./npx", nil, dir, `there is no file "` + dir + `/npx": check command; a relative path begins at cwd`, cannot},
		"no such path": {"/no/such/npx", nil, dir, `there is no file "/no/such/npx": check command`, cannot},
		"~ in command": {"~/bin/foo", nil, "", `there is no file "~/bin/foo": ~ is not expanded in command; write ${HOME}/bin/foo`, cannot},
		"~ in cwd":     {"true", nil, dir + "/~/x", `the program "true" was not started, as there is no folder "` + dir + `/~/x": ~ is not expanded in cwd; write ${HOME}/x`, cannot},
		"~ in args": {"sh", []string{"-c", "exit 3", "~/data"}, "", `the program "sh" ended with exit status 3 before initialize and said nothing on its standard error: ` +
			`check its args and env, and run it by hand; ~ is not expanded in args; write ${HOME}/data if the program needs the path`, "the server ended: exit status 3"},
		"not executable": {"./plain", nil, dir, `the file "` + plain + `" is not executable: chmod +x it, or make its interpreter the command and it the first of args`, cannot},
		"no interpreter": {orphan, nil, "", `the program "` + orphan + `" cannot be started, as what its first line (#!) names as interpreter, or its loader, is not there: install that`, cannot},
		"no program":     {blank, nil, "", `the file "` + blank + `" is no program for this machine: if it is a script, its first line must name an interpreter (#!/bin/sh)`, cannot},
		"a directory":    {dir, nil, "", `"` + dir + `" is a folder, not a program: check command`, cannot},
		"no directory":   {"true", nil, dir + "/x", `the program "true" was not started, as there is no folder "` + dir + `/x": check cwd`, cannot},
		"status 0": {"true", nil, "", `the program "true" ended with status 0 before initialize: ` + check + `, that its args do not only make it print something, and that it stays in the foreground`,
			"the server ended: exit status 0"},
		"status 3": {"sh", []string{"-c", "exit 3"}, "", `the program "sh" ended with exit status 3 before initialize and said nothing on its standard error: check its args and env, and run it by hand`,
			"the server ended: exit status 3"},
		"status 3 with a reason on stderr": {"sh", []string{"-c", "echo one >&2; echo 'KEY is not set' >&2; echo >&2; exit 3"}, "",
			`the program "sh" ended with exit status 3 before initialize; its standard error says "KEY is not set": fix that, and check its args and env`, "the server ended: exit status 3"},
		"long stderr": {"sh", []string{"-c", "head -c 5000 /dev/zero | tr '\\0' x >&2; exit 3"}, "",
			`the program "sh" ended with exit status 3 before initialize; the last line of its standard error is "` + strings.Repeat("x", 2*diagnose.MaxExcerpt) + `": fix that, and check its args and env`, "the server ended: exit status 3"},
		"prints to stdout and ends": {"sh", []string{"-c", "echo usage: x; exit 2"}, "",
			`the program "sh" printed text that is no MCP message and ended with exit status 2: ` + check + `, and that its args are complete`, "the server ended: exit status 2"},
		"silent": {"sleep", []string{"1000"}, "", `the program "sleep": ` + mute + `: ` + check + `, and raise timeout if it takes longer, as a first download may; a server of modern revisions that leaves initialize unanswered needs era: modern`, mute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Server: Server{Stdio: &process.Config{Command: test.command, Args: test.args, Dir: test.dir, Env: []string{"PATH=/usr/bin:/bin"}}}}
			if test.reason == mute {
				o.Timeout = 2 * time.Second
			}
			advice, reason := failureMessages(t, o)
			if advice != test.advice {
				t.Errorf("the log says\n%s, want\n%s", advice, test.advice)
			}
			if reason != test.reason {
				t.Errorf("clients get %q, want %q", reason, test.reason)
			}
		})
	}
}

// The advice distinguishes a running program that prints text from one that prints
// nothing, even if the text has no newline.
func TestAdviceForRunningPrograms(t *testing.T) {
	const mute = "the server did not introduce itself within 1m0s"
	const prints = `the program "sh" prints text that is no MCP message (` + mute + `): ` + diagnose.CheckStdio
	for name, tc := range map[string]struct{ printed, want string }{
		"a line":              {"listening on port 3000\n", prints},
		"part of a line":      {"listening on port 3000", prints},
		"a long line":         {strings.Repeat("x", 100_000) + "\n", prints},
		"part of a long line": {strings.Repeat("x", 100_000), prints},
		"nothing":             {"", `the program "sh": ` + mute + `: ` + diagnose.CheckServer + `, and raise timeout if it takes longer, as a first download may; a server of modern revisions that leaves initialize unanswered needs era: modern`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method == wire.MethodInitialize {
						io.WriteString(l.Out, tc.printed)
					}
				}}
				watch := newWatcher()
				o := Options{Server: Server{Stdio: &process.Config{Command: "sh"}, MaxMessage: 64 << 10}, Hooks: Hooks{Observer: watch}}.withDefaults()
				c := connector.New(connector.Options{Session: sessionOwner{o}, Advice: o.advice, Dialer: func(*connector.Connector) (protocol.Dialer, error) {
					return line.NewDialer(o.conversation(), inproc.Open(s.Pipe)), nil
				}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- c.Run(ctx) }()
				upstreamtest.Equal(t, "advice", watch.wait(t, isDown).Advice, tc.want)
				cancel()
				<-done
			})
		})
	}
}

func TestAdviceForRemoteServers(t *testing.T) {
	status := func(code int, kind, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			io.WriteString(w, body)
		})
	}
	remote := func(code int, kind, body string) string { return serve(t, status(code, kind, body)).URL }
	withTLS := httptest.NewUnstartedServer(status(200, httpconn.TypeJSON, "{}"))
	withTLS.Config.ErrorLog = log.New(io.Discard, "", 0)
	withTLS.StartTLS()
	t.Cleanup(withTLS.Close)
	oldTLS := httptest.NewUnstartedServer(status(200, httpconn.TypeJSON, "{}"))
	oldTLS.Config.ErrorLog = log.New(io.Discard, "", 0)
	oldTLS.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	oldTLS.StartTLS()
	t.Cleanup(oldTLS.Close)
	cuts := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })).URL
	plain := remote(200, httpconn.TypeJSON, "{}")
	mail := tcpServer(t, func(c net.Conn) {
		io.WriteString(c, "220 mail.test ESMTP\r\n")
		io.Copy(io.Discard, c)
	})

	oauth := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", resource_metadata="https://x.test/.well-known/oauth-protected-resource"`)
		w.WriteHeader(http.StatusUnauthorized)
	})).URL

	identified := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "abc-1")
		w.WriteHeader(http.StatusInternalServerError)
	})).URL

	const cannot, secret = "cannot connect to the server", "hunter2"
	for name, test := range map[string]struct {
		url, advice, reason string // URL and HOST are placeholders
		header              string
	}{
		"401": {url: remote(401, "text/plain", ""), reason: "the server refuses the gateway's credentials (HTTP 401)",
			advice: `URL answered HTTP 401: it wants credentials; give them under headers, such as Authorization: "Bearer ${TOKEN}", or under auth, or run gateway add files URL --header 'Authorization: Bearer KEY' --replace; if it uses OAuth, give --oauth in place of --header, then run gateway login files`},
		"401, at a URL with a key": {url: remote(401, "text/plain", "") + "?key=" + secret, reason: "the server refuses the gateway's credentials (HTTP 401)",
			advice: `URL answered HTTP 401: it wants credentials; give them under headers, such as Authorization: "Bearer ${TOKEN}", or under auth; if it uses OAuth, set auth: {kind: user}, then run gateway login files`},
		"401, with credentials": {url: remote(401, "text/plain", ""), reason: "the server refuses the gateway's credentials (HTTP 401)", header: "X-API-Key",
			advice: `URL answered HTTP 401: the credentials under headers or auth are not accepted; check that they are the right ones and have not expired`},
		"401 with OAuth": {url: oauth, reason: "the server refuses the gateway's credentials (HTTP 401)",
			advice: `URL answered HTTP 401: this server uses OAuth: run gateway add files URL --oauth --replace, or set auth: {kind: user}; then run gateway login files`},
		"401 with OAuth, at a URL with a key": {url: oauth + "?key=" + secret, reason: "the server refuses the gateway's credentials (HTTP 401)",
			advice: `URL answered HTTP 401: this server uses OAuth: set auth: {kind: user}; then run gateway login files`},
		"401 with OAuth, with credentials": {url: oauth, reason: "the server refuses the gateway's credentials (HTTP 401)", header: "X-API-Key",
			advice: `URL answered HTTP 401: the credentials under headers or auth are not accepted; check that they are the right ones and have not expired. This server uses OAuth: auth: {kind: user} with gateway login files is another way`},
		"403": {url: remote(403, httpconn.TypeJSON, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no\nadmin"}}`), reason: "the server refuses the gateway's credentials (HTTP 403)",
			advice: `URL answered HTTP 403 ("no admin"): it refuses a request without credentials, or does not let this machine in; if it wants credentials, give them under headers, such as Authorization: "Bearer ${TOKEN}", or under auth`},
		"404": {url: remote(404, "text/plain", ""), reason: "the server refuses initialize (HTTP 404) and offers no HTTP+SSE stream",
			advice: `URL answered HTTP 404: check the path of url; servers often serve MCP at /mcp, and older ones at /sse`},
		"501": {url: remote(501, "text/html", "<h1>POST is not implemented</h1>"), reason: "the server answered HTTP 501 with content type text/html",
			advice: `URL answered HTTP 501: check the path of url; servers often serve MCP at /mcp, and older ones at /sse`},
		"502": {url: remote(502, "text/plain", ""), reason: "the server answered HTTP 502 with content type text/plain",
			advice: `URL answered HTTP 502: the fault is on its side, or on that of a proxy before it; look into its log`},
		"500 with a text": {url: remote(500, "text/plain", "database is\n\tlocked\x1b[31m for "+secret), reason: "the server answered HTTP 500 with content type text/plain", header: "X-API-Key",
			advice: `URL answered HTTP 500 ("database is locked[31m for [redacted]"): the fault is on its side, or on that of a proxy before it; look into its log`},
		"500 with JSON": {url: remote(500, httpconn.TypeJSON, `{"error": "database is locked"}`), reason: "the server answered HTTP 500 with content type application/json",
			advice: `URL answered HTTP 500 ("{\"error\": \"database is locked\"}"): the fault is on its side, or on that of a proxy before it; look into its log`},
		"500 with a page": {url: remote(500, "text/plain", "<!DOCTYPE html><h1>Error</h1>"), reason: "the server answered HTTP 500 with content type text/plain",
			advice: `URL answered HTTP 500: the fault is on its side, or on that of a proxy before it; look into its log`},
		"500 with its name": {url: remote(500, "text/plain", "Internal Server Error\n"), reason: "the server answered HTTP 500 with content type text/plain",
			advice: `URL answered HTTP 500: the fault is on its side, or on that of a proxy before it; look into its log`},
		"503 with a long text": {url: remote(503, "", strings.Repeat("x", 100_000)), reason: "the server answered HTTP 503 with no content type",
			advice: `URL answered HTTP 503 ("` + strings.Repeat("x", diagnose.MaxExcerpt) + `…"): the fault is on its side, or on that of a proxy before it; look into its log`},
		"500 with a request id": {url: identified, reason: "the server answered HTTP 500 with no content type",
			advice: `URL answered HTTP 500: the fault is on its side, or on that of a proxy before it; look into its log (request abc-1)`},
		"503 of a gateway": {url: remote(503, httpconn.TypeJSON, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"try again later","data":{"requestId":"abc-1"}}}`), reason: "try again later (-32603)",
			advice: `URL: try again later (-32603) (request abc-1)`},
		"TLS only": {url: strings.Replace(withTLS.URL, "https:", "http:", 1), reason: "the server refuses initialize (HTTP 400) and offers no HTTP+SSE stream",
			advice: `URL answered HTTP 400: it speaks TLS: write https:// in url`},
		"a web page": {url: remote(200, "text/html", "<h1>Sign in</h1>"), reason: "the server answered HTTP 200 with content type text/html",
			advice: `URL answered HTTP 200 with content type text/html and not with MCP: url leads to a web page, such as one for signing in; check its path, and whether credentials are missing under headers`},
		"unknown authority": {url: withTLS.URL, reason: cannot,
			advice: `the certificate of HOST is signed by an authority that is not trusted here: name a file with that authority's certificate under ca`},
		"old TLS":            {url: oldTLS.URL, reason: cannot, advice: `HOST refuses TLS with this gateway (tls: protocol version not supported): it may ask for a client certificate, which you name under client_cert, or another version of TLS`},
		"no TLS":             {url: strings.Replace(plain, "http:", "https:", 1), reason: cannot, advice: `HOST does not speak TLS: write http:// in url, or let the server do TLS`},
		"no such host":       {url: "http://nobody.invalid/mcp", reason: cannot, advice: `there is no host "nobody.invalid": check the name in url`},
		"connection refused": {url: "http://127.0.0.1:1/mcp?key=" + secret, reason: cannot, advice: `nothing listens on HOST: start the server, or check the host and port of url`},
		"no HTTP": {url: mail, reason: "the connection to the server broke before it answered",
			advice: `HOST does not answer in HTTP/1.1: check the host and port of url; if it speaks TLS, write https://`},
		"connection closed": {url: cuts, reason: "the connection to the server broke before it answered",
			advice: `HOST ends the connection without an answer (the connection to the server broke before it answered: unexpected EOF): if it speaks TLS, write https:// in url; else look into its log`},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := url.Parse(test.url)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Server: Server{HTTP: &httpconn.Config{URL: at}}}
			if test.header != "" {
				o.HTTP.Headers = map[string]string{test.header: secret}
				o.Mask = func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
			}
			advice, reason := failureMessages(t, o)
			want := strings.NewReplacer("URL", diagnose.Show(at), "HOST", at.Host).Replace(test.advice)
			if name == "no such host" && strings.Contains(advice, "cannot be resolved now") {
				want = advice // a machine without a network has no name server
			}
			if advice != want {
				t.Errorf("the log says\n%s, want\n%s", advice, want)
			}
			if reason != test.reason {
				t.Errorf("clients get %q, want %q", reason, test.reason)
			}
			if strings.Contains(advice, secret) {
				t.Error("the log contains a secret")
			}
		})
	}
}

// The text of an HTTP error is for operators: in the advice about a list, and beside the error of a call, whose
// client does not get it.
func TestTextOfAStatusInALiveConversation(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, "database is locked")
	}
	s := &script{stateful: true, caps: `{"prompts":{}}`, on: map[string]on{wire.MethodPromptsList: busy, wire.MethodToolsCall: busy}}
	at, err := url.Parse(serve(t, s).URL)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	r := start(t, Options{Server: Server{HTTP: &httpconn.Config{URL: at}, Era: wire.EraLegacy}, Logger: zap.New(core)})
	shot := r.watch.wait(t, func(s connector.Snapshot) bool { return s.State == connector.Degraded })
	const reason, text = "the server answered HTTP 500 with content type text/plain", ` ("database is locked")`
	upstreamtest.Equal(t, "reason", shot.Reason, "prompts/list: "+reason)
	upstreamtest.Equal(t, "advice", shot.Advice, "prompts/list: "+reason+text)
	line := logs.FilterMessage("cannot gather a list").All()[0].ContextMap()["error"].(string)
	if !strings.HasSuffix(line, text) {
		t.Errorf("the log says %s", line)
	}
	cl := tool("a", `{"name":"x"}`, nil)
	cl.Principal = call.Anonymous
	_, err = r.Do(t.Context(), cl)
	failure, ok := errors.AsType[*wire.Error](err)
	if !ok {
		t.Fatal(err)
	}
	upstreamtest.Equal(t, "explanation", failure.Explain(whole), reason+text)
	upstreamtest.Equal(t, "detail", failure.Detail, "")
	if sent := string(failure.Append(nil)); strings.Contains(sent, "locked") || !strings.Contains(sent, reason) {
		t.Errorf("the client gets %s", sent)
	}
}

// whole hides nothing of what a server said.
func whole(said string) string { return said }

// The log gives the same advice when a ready server ends.
func TestAdviceAfterACrash(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	r := start(t, Options{Server: Server{Stdio: testProgram("fragile"), Era: wire.EraLegacy}, Logger: zap.New(core)})
	r.watch.wait(t, isReady)
	if _, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})); err == nil {
		t.Fatal("the call that ends the server succeeded")
	}
	r.watch.wait(t, isDown)
	entries := logs.FilterMessage("no connection").All()
	want := `the program "` + os.Args[0] + `" ended with exit status 9: it is started again`
	if got := entries[0].ContextMap()["why"]; got != want {
		t.Errorf("the log says %s, want %s", got, want)
	}
}

// While the reason stays the same, each call has the request id of the answer to its own attempt.
func TestAdviceHasTheRequestIDOfItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no other attempt follows before the test reads the id
		var last atomic.Int64
		server := serveInMemory(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", fmt.Sprintf("w-%d", last.Add(1)))
			w.WriteHeader(http.StatusUnauthorized)
		}))
		r := start(t, Options{Server: Server{HTTP: server}})
		r.watch.wait(t, isDown)
		since := r.Snapshot().Since
		for range 3 {
			before := last.Load()
			_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
			failure, ok := errors.AsType[*wire.Error](err)
			if !ok || last.Load() == before {
				t.Fatalf("the call made no attempt: %v", err)
			}
			if want := fmt.Sprintf("(request w-%d)", last.Load()); !strings.HasSuffix(failure.Detail, want) {
				t.Errorf("detail %q, want %s", failure.Detail, want)
			}
		}
		if s := r.Snapshot(); !s.Since.Equal(since) {
			t.Errorf("down since %s, before the calls since %s", s.Since, since)
		}
	})
}

// An open circuit breaker tells operators of the last failure what they read when it happened. Clients get no address.
func TestAdviceOfAnOpenBreaker(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	health := connector.NewHealth(connector.HealthSettings{Failures: 1, Open: time.Hour})
	at := &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/mcp"} // nothing listens there
	o := Options{Server: Server{HTTP: &httpconn.Config{URL: at}}, Logger: zap.New(core), Health: health}
	r := start(t, o)
	r.watch.wait(t, isDown)
	failed := func() *wire.Error {
		_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
		failure, ok := err.(*wire.Error)
		if !ok {
			t.Fatal(err)
		}
		return failure
	}
	const cannot, before = "cannot connect to the server", "the circuit breaker is open after 1 failed call; the last error: "
	advice := "nothing listens on " + at.Host + ": start the server, or check the host and port of url"
	upstreamtest.Equal(t, "detail of the call that opens it", failed().Detail, advice)
	refused := failed()
	upstreamtest.Equal(t, "detail", refused.Detail, before+advice)
	if sent := string(refused.Append(nil)); !strings.Contains(sent, `"reason":"`+before+cannot+`"`) || strings.Contains(sent, at.Host) {
		t.Errorf("the client gets %s", sent)
	}
	lines := logs.FilterMessage("the circuit breaker is open: calls fail at once").All()
	if len(lines) != 1 {
		t.Fatalf("%d lines say that it is open, want 1", len(lines))
	}
	if got := lines[0].ContextMap()["last_error"]; got != advice {
		t.Errorf("the log says %s, want %s", got, advice)
	}
}

// tcpServer passes each connection to on until the test ends and returns its URL.
func tcpServer(t *testing.T, on func(c net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				on(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String() + "/mcp"
}

// While a program makes its first attempt, operators see what it writes to its standard
// error: it may hang.
func TestStandardErrorWhileConnecting(t *testing.T) {
	const script = `echo starting >&2; echo "Error: connect ECONNREFUSED 127.0.0.1:1" >&2; exec cat >/dev/null`
	r := start(t, Options{Server: Server{Stdio: &process.Config{Command: "sh", Args: []string{"-c", script}, Env: process.Environ(nil, nil)}}})
	const want = `its standard error says "Error: connect ECONNREFUSED 127.0.0.1:1"`
	shot := r.watch.wait(t, func(s connector.Snapshot) bool { return strings.Contains(s.Advice, "ECONNREFUSED") })
	if shot.State != connector.Connecting || shot.Advice != want || shot.Reason != "" {
		t.Errorf("%s: %q, %q", shot.State, shot.Reason, shot.Advice)
	}
}
