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

// standIn plays the gateway, with the flags and the admin address of the real one: this test binary runs itself in its place.
func standIn(args []string) {
	var config struct {
		Admin     struct{ Listen string }
		Upstreams map[string]any
		Status    int // to end with
	}
	text, err := os.ReadFile(args[2]) // run -c FILE --listen ADDR
	if err != nil || json.Unmarshal(text, &config) != nil || strings.Join(args[:2], " ") != "run -c" || args[3] != "--listen" {
		fmt.Println("stand-in: cannot read", args, err)
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

func playGateway(t *testing.T) {
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
	playGateway(t)
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
		t.Errorf("%d upstreams arrived, readiness was asked for %d times; want 2 upstreams and at least 3 times", upstreams, asked)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAGatewayThatEndsBadlyFailsTheTest(t *testing.T) {
	playGateway(t)
	w := &witness{TB: t}
	StartGateway(w, Config{"status": 3})
	for _, cleanup := range w.cleanups {
		defer cleanup()
	}
	t.Cleanup(func() {
		if want := "the gateway did not end well: exit status 3"; w.said != want {
			t.Errorf("the test was told %q, want %q", w.said, want)
		}
	})
}

// witness stands for a test and takes its errors and its cleanup down.
type witness struct {
	testing.TB
	cleanups []func()
	said     string
}

func (w *witness) Cleanup(f func())                  { w.cleanups = append(w.cleanups, f) }
func (w *witness) Errorf(format string, args ...any) { w.said = fmt.Sprintf(format, args...) }
