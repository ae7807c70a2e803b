package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/rig"
)

// A host starts the gateway on stdio with a lazy server from npm. The server is started once to gather its catalog, again for a call, and stopped when
// it is idle. The next gateway lists its tools without starting it.
func TestLazyOverStdio(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	config := rig.Config{"state_dir": t.TempDir(), "upstreams": rig.Upstreams{"everything": {
		"command": "sh", "args": append([]string{"-c", `echo started >>"$0"; exec "$@"`, starts}, rig.EverythingCommand(t)...),
		"start": "lazy", "idle_stop": "1s",
	}}}
	h := startHost(t, config)
	expect := func(when string, want int) {
		t.Helper()
		text, err := os.ReadFile(starts)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(text), "\n"); got != want {
			t.Errorf("%s: the server was started %d times, want %d", when, got, want)
		}
	}
	awaitIdle := func() {
		t.Helper()
		polltest.UntilNil(t, "the server is stopped", func() error {
			all, err := observe.Descendants(h.process.PID())
			if err == nil && len(all) > 0 {
				err = fmt.Errorf("the processes %v run", all)
			}
			return err
		})
	}
	if got := h.list(); !strings.Contains(got, `"everything__get-sum"`) {
		t.Errorf("the first list: %s", got)
	}
	awaitIdle()
	expect("after the first list", 1)
	for n := range 2 {
		if got := h.call("everything__get-tiny-image", ""); got.Fault() != nil || !strings.Contains(got.Text, "image/png") {
			t.Errorf("call %d got %.500s", n, got.Text)
		}
		expect("after a call", n+2)
		awaitIdle()
	}
	h.end()

	h = startHost(t, config)
	if got := h.list(); !strings.Contains(got, `"everything__get-sum"`) {
		t.Errorf("the list of the next gateway: %s", got)
	}
	expect("after the list of the next gateway", 3)
	if got := h.call("everything__get-tiny-image", ""); got.Fault() != nil {
		t.Errorf("the call of the next gateway: %s", got.Text)
	}
	expect("after its call", 4)
	h.end()
}

// list returns the result of tools/list.
func (h *host) list() string {
	h.t.Helper()
	h.last++
	if _, err := fmt.Fprintf(h.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n", h.last); err != nil {
		h.t.Fatal(err)
	}
	return h.answers(1)[fmt.Sprint(h.last)].Member("result")
}

// end closes the input of the gateway and waits for its end.
func (h *host) end() {
	h.t.Helper()
	h.in.Close()
	<-h.process.Exited()
}
