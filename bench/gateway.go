package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

const (
	gatewayPackage = "mcpgateway/cmd/gateway"
	buildTimeout   = 5 * time.Minute
	anyPort        = "127.0.0.1:0" // a free port, chosen by the system
)

// buildGateway builds the gateway's binary into dir and returns its path.
func buildGateway(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	binary := filepath.Join(dir, "gateway")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, gatewayPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as in the Makefile
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", gatewayPackage, err, out)
	}
	return binary, nil
}

// gatewayConfig has the keys of the configuration that workloads set.
type gatewayConfig struct {
	StateDir  string         `json:"state_dir"`
	Listen    string         `json:"listen"`
	Admin     map[string]any `json:"admin"`
	TLS       map[string]any `json:"tls,omitempty"`
	Upstreams map[string]any `json:"upstreams"`
	Auth      map[string]any `json:"auth,omitempty"`
	Policy    map[string]any `json:"policy,omitempty"`
	Limits    map[string]any `json:"limits,omitempty"`
	Telemetry map[string]any `json:"telemetry,omitempty"`
	Bridge    map[string]any `json:"bridge,omitempty"`
	Store     map[string]any `json:"store,omitempty"`
}

// newGatewayConfig returns a configuration without upstreams.
func newGatewayConfig(dir string) *gatewayConfig {
	return &gatewayConfig{
		StateDir: filepath.Join(dir, "state"), Listen: anyPort,
		Admin:     map[string]any{"listen": anyPort},
		Upstreams: make(map[string]any), Telemetry: make(map[string]any),
	}
}

// addUpstream adds an upstream with a URL and returns the public name of its tool.
func (c *gatewayConfig) addUpstream(name, url, era string) (tool string) {
	c.Upstreams[name] = map[string]any{"url": url, "transport": "streamable-http", "era": era, "required": true}
	return name + "__" + toolName
}

// addCommand adds an upstream that is this program over stdio.
func (c *gatewayConfig) addCommand(name string) (tool string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	c.Upstreams[name] = map[string]any{"command": self, "args": stdioArgs(), "era": eraLegacy, "required": true}
	return name + "__" + toolName, nil
}

// addKeys makes n API keys of as many principals in one group.
func (c *gatewayConfig) addKeys(n int) (keys []string) {
	var entries []any
	for i := range n {
		key := fmt.Sprintf("bench-key-%032d", i)
		digest := sha256.Sum256([]byte(key))
		keys = append(keys, key)
		entries = append(entries, map[string]any{"id": strconv.Itoa(i), "sha256": hex.EncodeToString(digest[:]), "groups": []string{group(0)}})
	}
	c.Auth = map[string]any{"mode": "api-key", "api_keys": entries}
	return keys
}

func group(i int) string { return fmt.Sprintf("group-%03d", i) }

// addRules adds n rules with a condition on arguments. The first of them, as many
// as applying says, are about all tools; each of the others is about a tool that
// is not called. Another rule of each group allows.
func (c *gatewayConfig) addRules(n, applying, groups int) {
	var rules []any
	for i := range n {
		what := "*"
		if i >= applying {
			what = fmt.Sprintf("%s__other%d_*", gatewayUpstream, i)
		}
		rules = append(rules, map[string]any{
			"name": fmt.Sprintf("rule-%d", i), "effect": "deny", "what": map[string]any{"tools": []string{what}},
			"when": fmt.Sprintf(`has(args.path) && args.path == "/%d"`, i),
		})
	}
	for i := range groups {
		rules = append(rules, map[string]any{
			"name": fmt.Sprintf("allow-%d", i), "effect": "allow", "who": map[string]any{"groups": []string{group(i)}},
		})
	}
	c.Policy = map[string]any{"rules": rules}
	if groups == 0 {
		c.Policy["default"] = "allow"
	}
}

// gateway is a running gateway.
type gateway struct {
	*process
	URL   string // of the MCP endpoint
	Admin string // URL of the admin address
}

// startGateway starts the stage's binary with a configuration and waits until it
// is ready.
func (s *stage) startGateway(ctx context.Context, config *gatewayConfig) (*gateway, error) {
	data, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	// The gateway watches this folder, so log and audit are elsewhere, as on a usual system.
	dir := s.newFile("config")
	file := filepath.Join(dir, "gateway.json")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.binary, "run", "-c", file)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+s.certs.cert()) // what the gateway trusts in upstreams
	p, err := startProcess(cmd, s.newFile("gateway.log"))
	if err != nil {
		return nil, err
	}
	g := &gateway{process: p}
	if err := g.awaitReady(ctx); err != nil {
		return nil, errors.Join(g.explain(err), g.Close())
	}
	s.owned(g)
	return g, nil
}

// greeting matches the first line of the gateway's log, or the text that older ones print: the
// URLs of its MCP endpoint and of its admin address.
var greeting = regexp.MustCompile(`(?m)(?:^  MCP endpoint +|"msg":"the gateway starts".*"url":")(https?://[^\s"]+)(?:\n  admin +|","admin":")(http://[^\s"]+)`)

// awaitReady waits until the gateway has printed its URLs and its readiness
// address answers 200.
func (g *gateway) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	probe := &http.Client{Transport: &http.Transport{}}
	defer probe.CloseIdleConnections()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the gateway is not ready after %s", readyTimeout)
		case <-g.done:
			return errors.New("the gateway ended before it was ready")
		case <-poll.C:
		}
		if g.Admin == "" {
			said, err := os.ReadFile(g.log.Name())
			if err != nil {
				return err
			}
			addresses := greeting.FindSubmatch(said)
			if addresses == nil {
				continue
			}
			g.URL, g.Admin = string(addresses[1]), string(addresses[2])
		}
		if _, err := fetch(ctx, probe, g.Admin+"/readyz"); err == nil {
			return nil
		}
	}
}

// fetch returns the body of a GET with status 200.
func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: HTTP status %d: %.200s", url, resp.StatusCode, body)
	}
	return body, err
}
