package upstream

import (
	"context"
	"crypto/tls"
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
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/transport/inproc"
	"mcpgateway/internal/upstream/transport/line"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/wire"
)

// why returns what the log says of the first time that there was no connection,
// and what clients are told.
func why(t *testing.T, o Options) (logged, told string) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	o.Logger = zap.New(core)
	r := start(t, o)
	told = r.watch.wait(t, isDown).Reason
	entries := logs.FilterMessage("no connection").All()
	if len(entries) == 0 {
		t.Fatal("the log does not say that there is no connection")
	}
	logged, _ = entries[0].ContextMap()["why"].(string)
	return logged, told
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
		command   string
		args      []string
		dir       string
		why, told string
	}{
		"not in PATH":    {"npxx", nil, "", `there is no program "npxx" in the folders of PATH (/usr/bin:/bin): install it, give its whole path as command, or add its folder to PATH under env`, cannot},
		"command line":   {"npxx -y it", nil, "", `there is no program "npxx -y it" in the folders of PATH (/usr/bin:/bin): if those are a program and its arguments, make "npxx" the command and begin args with ["-y", "it"]`, cannot},
		"no file":        {"./npx", nil, dir, `there is no file "` + dir + `/npx": check command; a relative path begins at cwd`, cannot},
		"not executable": {"./plain", nil, dir, `the file "` + plain + `" is not executable: chmod +x it, or make its interpreter the command and it the first of args`, cannot},
		"no interpreter": {orphan, nil, "", `the program "` + orphan + `" cannot be started, as what its first line (#!) names as interpreter, or its loader, is not there: install that`, cannot},
		"no program":     {blank, nil, "", `the file "` + blank + `" is no program for this machine: if it is a script, its first line must name an interpreter (#!/bin/sh)`, cannot},
		"a folder":       {dir, nil, "", `"` + dir + `" is a folder, not a program: check command`, cannot},
		"no folder":      {"true", nil, dir + "/x", `the program "true" was not started, as there is no folder "` + dir + `/x": check cwd`, cannot},
		"status 0": {"true", nil, "", `the program "true" ended with status 0 before initialize: ` + check + `, that its args do not only make it print something, and that it stays in the foreground`,
			"the server ended: exit status 0"},
		"status 3": {"sh", []string{"-c", "exit 3"}, "", `the program "sh" ended with exit status 3 before initialize and said nothing on its standard error: check its args and env, and run it by hand`,
			"the server ended: exit status 3"},
		"status 3, and says why": {"sh", []string{"-c", "echo one >&2; echo 'KEY is not set' >&2; echo >&2; exit 3"}, "",
			`the program "sh" ended with exit status 3 before initialize; the last line of its standard error is "KEY is not set": fix that, and check its args and env`, "the server ended: exit status 3"},
		"says much": {"sh", []string{"-c", "head -c 5000 /dev/zero | tr '\\0' x >&2; exit 3"}, "",
			`the program "sh" ended with exit status 3 before initialize; the last line of its standard error is "` + strings.Repeat("x", diagnose.MaxExcerpt) + `": fix that, and check its args and env`, "the server ended: exit status 3"},
		"prints and ends": {"sh", []string{"-c", "echo usage: x; exit 2"}, "",
			`the program "sh" printed text that is no MCP message and ended with exit status 2: ` + check + `, and that its args are complete`, "the server ended: exit status 2"},
		"silent": {"sleep", []string{"1000"}, "", `the program "sleep": ` + mute + `: ` + check + `, and raise timeout if it takes longer, as a first download may; a server of modern revisions that leaves initialize unanswered needs era: modern`, mute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Server: Server{Stdio: &process.Config{Command: test.command, Args: test.args, Dir: test.dir, Env: []string{"PATH=/usr/bin:/bin"}}}}
			if test.told == mute {
				o.Timeout = 2 * time.Second
			}
			logged, told := why(t, o)
			if logged != test.why {
				t.Errorf("the log says\n%s, want\n%s", logged, test.why)
			}
			if told != test.told {
				t.Errorf("clients are told %q, want %q", told, test.told)
			}
		})
	}
}

// A program that prints what is no message and stays is told from one that says
// nothing, whether it ends its lines or not.
func TestAdviceForProgramsThatStay(t *testing.T) {
	const mute = "the server did not introduce itself within 1m0s"
	const prints = `the program "sh" prints text that is no MCP message (` + mute + `): ` + diagnose.CheckStdio
	for name, tc := range map[string]struct{ printed, want string }{
		"a line":         {"listening on port 3000\n", prints},
		"part of a line": {"listening on port 3000", prints},
		"a long one":     {strings.Repeat("x", 100_000) + "\n", prints},
		"part of that":   {strings.Repeat("x", 100_000), prints},
		"nothing at all": {"", `the program "sh": ` + mute + `: ` + diagnose.CheckServer + `, and raise timeout if it takes longer, as a first download may; a server of modern revisions that leaves initialize unanswered needs era: modern`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{handle: func(l *fakeLife, m wire.Message) {
					if m.Method == wire.MethodInitialize {
						io.WriteString(l.out, tc.printed)
					}
				}}
				watch := newWatcher()
				o := Options{Server: Server{Stdio: &process.Config{Command: "sh"}, MaxMessage: 64 << 10}, Hooks: Hooks{Observer: watch}}.withDefaults()
				c := connector.New(connector.Options{Session: sessionOwner{o}, Advice: o.advice, Dialer: func(*connector.Connector) (protocol.Dialer, error) {
					return line.NewDialer(o.conversation(), inproc.Open(s.pipe)), nil
				}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- c.Run(ctx) }()
				equal(t, "advice", watch.wait(t, isDown).Advice, tc.want)
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
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	cuts := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })).URL
	plain := remote(200, httpconn.TypeJSON, "{}")
	mail := tcpServer(t, func(c net.Conn) {
		io.WriteString(c, "220 mail.test ESMTP\r\n")
		io.Copy(io.Discard, c)
	})

	const cannot, secret = "cannot connect to the server", "hunter2"
	for name, test := range map[string]struct {
		url, why, told string // URL and HOST stand for what is asked
		header         string
	}{
		"401": {url: remote(401, "text/plain", ""), told: "the server refuses the gateway's credentials (HTTP 401)",
			why: `URL answered HTTP 401: it wants credentials; give them under headers, such as Authorization: "Bearer ${TOKEN}", or under auth`},
		"401, with credentials": {url: remote(401, "text/plain", ""), told: "the server refuses the gateway's credentials (HTTP 401)", header: "X-API-Key",
			why: `URL answered HTTP 401: the credentials under headers or auth are not accepted; check that they are the right ones and have not expired`},
		"403": {url: remote(403, httpconn.TypeJSON, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no\nadmin"}}`), told: "the server refuses the gateway's credentials (HTTP 403)",
			why: `URL answered HTTP 403 ("no\nadmin"): it knows who is asking and refuses; check the rights of the credentials under headers, and whether it lets this machine in`},
		"404": {url: remote(404, "text/plain", ""), told: "the server refuses initialize (HTTP 404) and offers no HTTP+SSE stream",
			why: `URL answered HTTP 404: check the path of url; servers often serve MCP at /mcp, and older ones at /sse`},
		"502": {url: remote(502, "text/plain", ""), told: "the server answered HTTP 502 with content type text/plain",
			why: `URL answered HTTP 502: the fault is on its side, or on that of a proxy before it; look into its log`},
		"a web page": {url: remote(200, "text/html", "<h1>Sign in</h1>"), told: "the server answered HTTP 200 with content type text/html",
			why: `URL answered HTTP 200 with content type text/html and not with MCP: url leads to a web page, such as one for signing in; check its path, and whether credentials are missing under headers`},
		"unknown authority": {url: withTLS.URL, told: cannot,
			why: `the certificate of HOST is signed by an authority that is not trusted here: name a file with that authority's certificate in SSL_CERT_FILE, in the environment of the gateway`},
		"old TLS":      {url: oldTLS.URL, told: cannot, why: `HOST refuses TLS with this gateway (tls: protocol version not supported): it may ask for a client certificate or another version of TLS`},
		"no TLS":       {url: strings.Replace(plain, "http:", "https:", 1), told: cannot, why: `HOST does not speak TLS: write http:// in url, or let the server do TLS`},
		"no such host": {url: "http://nobody.invalid/mcp", told: cannot, why: `there is no host "nobody.invalid": check the name in url`},
		"nobody there": {url: "http://" + nobody + "/mcp?key=" + secret, told: cannot, why: `nothing listens on HOST: start the server, or check the host and port of url`},
		"no HTTP": {url: mail, told: "the connection to the server broke before it answered",
			why: `HOST does not answer in HTTP/1.1: check the host and port of url; if it speaks TLS, write https://`},
		"cut off": {url: cuts, told: "the connection to the server broke before it answered",
			why: `HOST ends the connection without an answer (the connection to the server broke before it answered: unexpected EOF): if it speaks TLS, write https:// in url; else look into its log`},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := url.Parse(test.url)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Server: Server{HTTP: &httpconn.Config{URL: at}}}
			if test.header != "" {
				o.HTTP.Headers = map[string]string{test.header: secret}
			}
			logged, told := why(t, o)
			want := strings.NewReplacer("URL", diagnose.Show(at), "HOST", at.Host).Replace(test.why)
			if name == "no such host" && strings.Contains(logged, "cannot be resolved now") {
				want = logged // a machine without a network has no name server that could know
			}
			if logged != want {
				t.Errorf("the log says\n%s, want\n%s", logged, want)
			}
			if told != test.told {
				t.Errorf("clients are told %q, want %q", told, test.told)
			}
			if strings.Contains(logged, secret) {
				t.Error("the log tells a secret")
			}
		})
	}
}

// How a server that was at work ended is told in the same way.
func TestAdviceAfterACrash(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	r := start(t, Options{Server: Server{Stdio: testProgram("fragile"), Era: wire.EraLegacy}, Logger: zap.New(core)})
	r.watch.wait(t, isReady)
	if _, err := r.Do(t.Context(), toolCall("echo", "a", &peer{})); err == nil {
		t.Fatal("the call that ends the server was answered")
	}
	r.watch.wait(t, isDown)
	entries := logs.FilterMessage("no connection").All()
	want := `the program "` + os.Args[0] + `" ended with exit status 9: it is started again`
	if got := entries[0].ContextMap()["why"]; got != want {
		t.Errorf("the log says %s, want %s", got, want)
	}
}

// tcpServer gives each connection to on until the test ends, and returns its URL.
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
