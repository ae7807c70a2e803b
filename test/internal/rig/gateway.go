package rig

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
)

// stopWithin bounds the gateway's end after SIGTERM: its own drain timeout, and some time for a busy machine.
const stopWithin = 30 * time.Second

// Config is a gateway's configuration, as its file spells it. JSON is YAML, so no key has to be spelled a second time here.
type Config map[string]any

// Upstreams are the entries under the configuration's key of that name.
type Upstreams map[string]Config

// Gateway is a running gateway.
type Gateway struct {
	URL     string // of the merged MCP endpoint
	SSE     string // of the same over HTTP+SSE
	Admin   string // base URL of the admin address
	Process *process.Process
}

// StartGateway runs the real binary with the configuration, on addresses of its own unless it names one to listen on, and waits until it is ready. At the end of the test the
// gateway is asked to stop; the test fails when it does not end by itself with status 0.
func StartGateway(t testing.TB, config Config) *Gateway {
	t.Helper()
	listen, given := config["listen"].(string)
	if !given {
		listen = netns.Addr()
	}
	admin := netns.Addr()
	return start(t, listen, admin, configFile(t, Config{"admin": Config{"listen": admin}}, config))
}

// StartGatewayOn is StartGateway with a file that the test wrote, at addresses that the test chose.
func StartGatewayOn(t testing.TB, listen, admin, file string) *Gateway {
	t.Helper()
	return start(t, listen, admin, file, "--admin-listen", admin)
}

func start(t testing.TB, listen, admin, file string, flags ...string) *Gateway {
	t.Helper()
	g := &Gateway{URL: "http://" + listen + "/mcp", SSE: "http://" + listen + "/sse", Admin: "http://" + admin}
	g.Process = process.Start(t, process.Options{
		Name: "gateway",
		Args: append([]string{binary(t, "gateway"), "run", "-c", file, "--listen", listen}, flags...),
	})
	t.Cleanup(func() {
		select {
		case <-g.Process.Exited(): // the test ended it, or will have noticed
			return
		default:
		}
		if err := g.Process.Stop(stopWithin); err != nil {
			t.Errorf("the gateway did not end well: %v", err)
		}
	})
	g.Process.WaitReady(t, func() error { return get(g.Admin + "/readyz") })
	return g
}

// Binary returns the path of the real binary.
func Binary(t testing.TB) string {
	t.Helper()
	return binary(t, "gateway")
}

// StdioCommand returns the command line of the real binary that serves whoever starts it on standard input and output.
func StdioCommand(t testing.TB, config Config) []string {
	t.Helper()
	return []string{binary(t, "gateway"), "stdio", "-c", configFile(t, config)}
}

// LoginCommand returns the command line of the real binary that lets a user grant access to an upstream.
func LoginCommand(t testing.TB, config Config, upstream string) []string {
	t.Helper()
	return []string{binary(t, "gateway"), "login", upstream, "-c", configFile(t, config)}
}

// CheckCommand returns the command line of the real binary that checks every upstream.
func CheckCommand(t testing.TB, config Config, flags ...string) []string {
	t.Helper()
	return append([]string{binary(t, "gateway"), "check", "-c", configFile(t, config)}, flags...)
}

// startupWait is the startup_wait of gateways that are not told another: the servers of these tests come up, but on a busy machine perhaps not within
// the default, after which a gateway is ready without them.
const startupWait = "60s"

// configFile writes a configuration, of which the last part that names a key counts, and a folder for what the gateway remembers.
func configFile(t testing.TB, parts ...Config) string {
	t.Helper()
	whole := Config{"state_dir": t.TempDir(), "startup_wait": startupWait}
	for _, part := range parts {
		maps.Copy(whole, part)
	}
	text, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func get(url string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return nil
}
