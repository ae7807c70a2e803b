package process

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// The samples are what the programs print, shortened where that changes nothing.
func TestWords(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want string
		isError    bool
	}{
		"an error of node": {`[eval]:1
throw new Error("KEY is not set")
^

Error: KEY is not set
    at [eval]:1:7
    at node:internal/main/eval_string:51:3

Node.js v24.21.0
`, "Error: KEY is not set", true},
		"a rejected promise of node": {`node:internal/process/promises:394
    triggerUncaughtException(
    ^

Error: connect ECONNREFUSED 127.0.0.1:1
    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1611:16) {
  errno: -111,
  code: 'ECONNREFUSED',
  syscall: 'connect',
}
    at async main

Node.js v24.21.0
`, "Error: connect ECONNREFUSED 127.0.0.1:1", true},
		"a frame last":           {"Starting\nFatal error: boom\n    at async main (file:///x.js:3:4)\n", "Fatal error: boom", true},
		"an option of node":      {"node: bad option: --bogus\n", "node: bad option: --bogus", false},
		"a log line of an error": {"10:00 INFO starting\n10:00 ERROR cannot read key.pem\n10:00 INFO stopping\n", "10:00 ERROR cannot read key.pem", true},
		"an error in a log":      {"{\"level\":\"info\",\"msg\":\"a\"}\n{\"level\":\"error\",\"msg\":\"b\"}\n{\"level\":\"info\",\"msg\":\"c\"}\n", "b", true},
		"npm without the network": {"npm warn Unknown user config\nnpm error code ECONNREFUSED\nnpm error syscall connect\nnpm error errno ECONNREFUSED\nnpm error FetchError: request to http://127.0.0.1:1/x failed, reason: connect ECONNREFUSED 127.0.0.1:1\nnpm error     at ClientRequest.<anonymous> (/x/index.js:130:14)\nnpm error   code: 'ECONNREFUSED',\nnpm error If you are behind a proxy, see 'npm help config'\nnpm error A complete log of this run can be found in: /home/me/.npm/_logs/x.log\n",
			"npm error FetchError: request to http://127.0.0.1:1/x failed, reason: connect ECONNREFUSED 127.0.0.1:1", true},
		"a package that npm does not find": {"npm error code E404\nnpm error 404 Not Found - GET https://packages.example/nothere - Not found\nnpm error 404\nnpm error A complete log of this run can be found in: /x.log\n",
			"npm error 404 Not Found - GET https://packages.example/nothere - Not found", true},
		"Python": {`INFO starting
Traceback (most recent call last):
  File "<string>", line 3, in <module>
    raise ValueError("Error: wrong")
ModuleNotFoundError: No module named 'nothere'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "<string>", line 5, in <module>
RuntimeError: cannot start
`, "RuntimeError: cannot start", true},
		"a group of errors of Python": {`  + Exception Group Traceback (most recent call last):
  |   File "<string>", line 7, in <module>
  |     return runner.run(main)
  |            ^^^^^^^^^^^^^^^^
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "<string>", line 5, in h
    | ValueError: no key
    +------------------------------------
`, "ValueError: no key", true},
		"a traceback without an end": {"Error: first\nTraceback (most recent call last):\n  File \"x\"\n", "Error: first", true},
		"Go":                         {"panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/tmp/p.go:2 +0x25\nexit status 2\n", "panic: boom", true},
		"a flag that Go lacks":       {"flag provided but not defined: -bogus\nUsage of x:\n  -name string\n    \ta name\n  -version\n    \tPrint version information and quit\n", "flag provided but not defined: -bogus", true},
		"a help text":                {"Docker for containers\nUsage: docker [OPTIONS]\n  -v, --version            Print version information and quit\n", "Docker for containers", false},
		"a command that cobra lacks": {"Error: unknown flag: --bogus\nUsage:\n  x [flags]\n\nFlags:\n  -h, --help   help for x\n", "Error: unknown flag: --bogus", true},
		"Rust":                       {"thread 'main' panicked at src/main.rs:2:5:\nno key\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n", "thread 'main' panicked at src/main.rs:2:5: no key", true},
		"a shell":                    {"sh: 1: nothere: not found\n", "sh: 1: nothere: not found", true},
		"Java":                       {"Exception in thread \"main\" java.lang.IllegalStateException: no key\n\tat Main.main(Main.java:5)\n", "Exception in thread \"main\" java.lang.IllegalStateException: no key", true},
		"no error":                   {"Secure MCP Filesystem Server running on stdio\nReady\n\n", "Ready", false},
		"only frames":                {"    at main (x.js:1:2)\n    at other (x.js:1:2)\n", "at main (x.js:1:2)", false},
		"nothing":                    {"\n\n", "", false},
		"colors and control bytes":   {"\x1b[31mError\x1b[0m: a\x00b\u202ec\x1b]0;title\x07 d\u200be\n", "Error: abc de", true},
		"the first of several":       {"Error: one\nError: two\n", "Error: one", true},
		"a record in JSON":           {`{"level":"info","msg":"starting"}` + "\n" + `{"level":"error","time":"2026-11-26T14:29:57Z","msg":"gateway failed","error":"one of its entries starts it:\n remove that entry"}` + "\n", "gateway failed: one of its entries starts it: remove that entry", true},
		"a record of pino":           {`{"level":50,"time":1,"pid":7,"err":{"type":"Error","message":"KEY is not set"},"msg":"KEY is not set"}` + "\n", "KEY is not set", true},
		"a record without an error":  {`{"level":30,"message":"bye"}` + "\n", "bye", false},
		"JSON without a message":     {`{"level":"error","code":7}` + "\n", `{"level":"error","code":7}`, true},
		"far back":                   {"Error: one\n" + strings.Repeat("line\n", keptLines), "line", false},
		"long":                       {"Error: " + strings.Repeat("x", 3*maxLine) + "\n", "Error: " + strings.Repeat("x", maxWords-len("Error: ")), true},
	} {
		r := newStderrReader(Log{To: zap.NewNop(), Mask: noLog.Mask})
		r.read(strings.NewReader(tc.text))
		if got := r.last.words(); got.Text != tc.want || got.Error != tc.isError {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
}

// A secret that escapes hide in a line of JSON is masked in the message.
func TestWordsOfEscapedSecrets(t *testing.T) {
	mask := strings.NewReplacer(`p"q`, "[redacted]").Replace
	r := newStderrReader(Log{To: zap.NewNop(), Mask: mask})
	r.read(strings.NewReader(`{"level":"error","msg":"no such key: p\u0022q"}` + "\n"))
	if got, want := r.last.words().Text, "no such key: [redacted]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A program that has run for long does not end because of an old error.
func TestWordsOfAnOldProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lastLines{began: time.Now()}
		l.add("Error: a tool failed", "")
		if got := l.words(); got.Text != "Error: a tool failed" {
			t.Errorf("at first: %+v", got)
		}
		time.Sleep(young + recent)
		l.add("closing", "")
		if got := l.words(); got.Text != "closing" || got.Error {
			t.Errorf("later: %+v", got)
		}
		l.add("Error: closed", "")
		if got := l.words(); got.Text != "Error: closed" {
			t.Errorf("with a new error: %+v", got)
		}
	})
}

// Each new line of a program is told at once, for a bounded number of lines.
func TestWordsAreTold(t *testing.T) {
	var mu sync.Mutex
	var told []Words
	r := newStderrReader(Log{To: zap.NewNop(), Mask: noLog.Mask, Wrote: func(w Words) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, w)
	}})
	r.read(strings.NewReader("starting\nstarting\nError: no\nmore\nError: other\n" + strings.Repeat("x\ny\n", maxTold)))
	if len(told) < 2 || len(told) > maxTold || told[0] != (Words{"starting", false}) || told[1] != (Words{"Error: no", true}) {
		t.Errorf("told %+v", told)
	}
}

// Hostile output is read in time linear in its size.
func FuzzWords(f *testing.F) {
	f.Add("Error: x\n    at y")
	f.Add(`{"level":"error","msg":"a\u0000b","error":{"message":"c"}}`)
	f.Add("Traceback (most recent call last):\n | + \n-\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := newStderrReader(Log{To: zap.NewNop(), Mask: noLog.Mask})
		r.read(strings.NewReader(text))
		if got := r.last.words(); len(got.Text) > 2*maxWords || strings.ContainsAny(got.Text, "\n\x00\x1b\x7f") {
			t.Errorf("%q", got.Text)
		}
	})
}
