package rig

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"mcpgateway/test/internal/netns"
)

// runFakeGateway is a fake gateway with the flags and the admin address of the real one. The test binary runs itself as this fake.
func runFakeGateway(args []string) {
	var config struct {
		Admin     struct{ Listen string }
		Upstreams map[string]any
		Status    int // exit status
	}
	text, err := os.ReadFile(args[2]) // run -c FILE --listen ADDR
	if err != nil || json.Unmarshal(text, &config) != nil || strings.Join(args[:2], " ") != "run -c" || args[3] != "--listen" {
		fmt.Println("fake gateway: cannot read", args, err)
		os.Exit(2)
	}
	asked := 0
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "ready")
	})
	http.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, len(config.Upstreams), " ", asked) })
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	for _, addr := range []string{config.Admin.Listen, args[4]} {
		go func() { fmt.Println(http.ListenAndServe(addr, nil)) }()
	}
	<-term
	os.Exit(config.Status)
}

func useFakeGateway(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]built{"gateway": {Path: self}})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(builtEnv, string(text))
}

func TestStartGateway(t *testing.T) {
	useFakeGateway(t)
	g := StartGateway(t, Config{"upstreams": Upstreams{"a": {"command": "x"}, "b": {"url": "http://" + netns.Addr()}}})
	if err := get(g.Admin + "/readyz"); err != nil {
		t.Error(err)
	}
	response, err := http.Get(g.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var upstreams, asked int
	if _, err := fmt.Fscan(response.Body, &upstreams, &asked); err != nil {
		t.Fatal(err)
	}
	if upstreams != 2 || asked < 3 {
		t.Errorf("%d upstreams and %d readiness requests; want 2 upstreams and at least 3 requests", upstreams, asked)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestUncleanShutdownFailsTheTest(t *testing.T) {
	useFakeGateway(t)
	fake := &fakeT{TB: t}
	StartGateway(fake, Config{"status": 3})
	for _, cleanup := range fake.cleanups {
		defer cleanup()
	}
	t.Cleanup(func() {
		if want := "the gateway did not shut down cleanly: exit status 3"; fake.message != want {
			t.Errorf("the test failed with %q, want %q", fake.message, want)
		}
	})
}

// fakeT is a testing.TB that records errors and cleanup functions.
type fakeT struct {
	testing.TB
	cleanups []func()
	message  string
}

func (t *fakeT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *fakeT) Errorf(format string, args ...any) { t.message = fmt.Sprintf(format, args...) }
