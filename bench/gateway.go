package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"gopkg.in/yaml.v3"
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

// gatewayConfig has the keys of gateway.yaml that workloads set.
type gatewayConfig struct {
	StateDir  string         `yaml:"state_dir"`
	Listen    string         `yaml:"listen"`
	Admin     map[string]any `yaml:"admin"`
	TLS       map[string]any `yaml:"tls,omitempty"`
	Upstreams map[string]any `yaml:"upstreams"`
	Auth      map[string]any `yaml:"auth,omitempty"`
	Policy    map[string]any `yaml:"policy,omitempty"`
	Limits    map[string]any `yaml:"limits,omitempty"`
	Telemetry map[string]any `yaml:"telemetry,omitempty"`
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

// addKeys makes n API keys in as many principals. Principal i is in group i
// modulo groups.
func (c *gatewayConfig) addKeys(n, groups int) (keys []string) {
	var entries []any
	for i := range n {
		key := fmt.Sprintf("bench-key-%032d", i)
		digest := sha256.Sum256([]byte(key))
		keys = append(keys, key)
		entries = append(entries, map[string]any{"id": fmt.Sprintf("p%d", i), "sha256": hex.EncodeToString(digest[:]), "groups": []string{group(i % groups)}})
	}
	c.Auth = map[string]any{"mode": "api-key", "api_keys": entries}
	return keys
}

func group(i int) string { return fmt.Sprintf("group-%d", i) }

// addRules adds n rules with a condition on arguments, one in twenty about all
// tools, each of the others about one that is not called. Another rule of each
// group allows.
func (c *gatewayConfig) addRules(n, groups int) {
	var rules []any
	for i := range n {
		what := fmt.Sprintf("other%d__*", i)
		if i%20 == 0 {
			what = "*"
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
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	file := s.newFile("gateway.yaml")
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

// greeting matches the gateway's first output: the URLs of its MCP endpoint and
// of its admin address.
var greeting = regexp.MustCompile(`(?m)^  MCP endpoint +(https?://\S+)\n  admin +(http://\S+)`)

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
