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

// stopWithin bounds the gateway's shutdown after SIGTERM: its default drain timeout, and some time for a busy machine.
const stopWithin = 30 * time.Second

// Config is a gateway's configuration with the keys of its file. It is written as JSON, which is valid YAML.
type Config map[string]any

// Upstreams are the entries of the key upstreams.
type Upstreams map[string]Config

// Gateway is a running gateway.
type Gateway struct {
	URL     string // of the merged MCP endpoint
	SSE     string // of the HTTP+SSE endpoint
	Admin   string // base URL of the admin address
	Process *process.Process
}

// StartGateway runs the real binary with the configuration and waits until it is ready. It listens on unused addresses unless the configuration
// names one. At the end of the test the gateway gets SIGTERM; the test fails unless it then exits with status 0.
func StartGateway(t testing.TB, config Config) *Gateway {
	t.Helper()
	if *replicas > 1 {
		if b := Balance(*balance); b != Requests && b != Connections {
			t.Fatalf("-balance %s: it is http or tcp", b)
		}
		b := Balance(*balance)
		if config["tls"] != nil {
			b = Connections // the balancer has no certificate
		}
		return startBalanced(t, *replicas, config, b)
	}
	return StartOne(t, "", config)
}

// StartOne is StartGateway for a test about a single process: with -replicas it runs one gateway, too. The log of the test has the reason why.
func StartOne(t testing.TB, why string, config Config) *Gateway {
	t.Helper()
	if Replicated() {
		t.Logf("with one replica: %s", why)
	}
	listen, given := config["listen"].(string)
	if !given {
		listen = netns.Addr()
	}
	admin := netns.Addr()
	return start(t, listen, admin, configFile(t, Config{"admin": Config{"listen": admin}}, config))
}

// StartGatewayOn is StartGateway with the test's own file and addresses.
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
		case <-g.Process.Exited(): // the test has ended it, or fails for another reason
			return
		default:
		}
		if err := g.Process.Stop(stopWithin); err != nil {
			t.Errorf("the gateway did not shut down cleanly: %v", err)
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

// StdioCommand returns the command line of the real binary that serves one client on standard input and output.
func StdioCommand(t testing.TB, config Config) []string {
	t.Helper()
	return []string{binary(t, "gateway"), "stdio", "-c", configFile(t, config)}
}

// LoginCommand returns the command line of the real binary with which a user authorizes the gateway at an upstream.
func LoginCommand(t testing.TB, config Config, upstream string) []string {
	t.Helper()
	return []string{binary(t, "gateway"), "login", upstream, "-c", configFile(t, config)}
}

// CheckCommand returns the command line of the real binary that checks every upstream.
func CheckCommand(t testing.TB, config Config, flags ...string) []string {
	t.Helper()
	return append([]string{binary(t, "gateway"), "check", "-c", configFile(t, config)}, flags...)
}

// startupWait is the default startup_wait of gateways in tests. On a busy machine the servers may need longer than the gateway's own default, after
// which a gateway is ready without them.
const startupWait = "60s"

// configFile writes a configuration and creates its state folder. Later parts override the keys of earlier ones.
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
