package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

const (
	gatewayPackage  = "mcpgateway/cmd/gateway"
	gatewayUpstream = "bench"
	gatewayTool     = gatewayUpstream + "__" + toolName

	anyPort = "127.0.0.1:0" // a free port, chosen by the system

	buildTimeout = 5 * time.Minute
	readyTimeout = 30 * time.Second
	stopTimeout  = 5 * time.Second
)

// buildGateway builds the gateway's binary into dir and returns its path.
func buildGateway(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	binary := filepath.Join(dir, "gateway")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, gatewayPackage).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", gatewayPackage, err, out)
	}
	return binary, nil
}

// gatewayProcess is a running gateway in front of one upstream.
type gatewayProcess struct {
	URL string // of the MCP endpoint

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	log  *os.File
}

// startGateway writes a configuration with one upstream into dir, starts the
// binary with it and waits until it is ready. The configuration sets the log
// level if logLevel is not empty and leaves the other defaults. The caller must
// call Close.
func startGateway(ctx context.Context, binary, dir, era, upstream, logLevel string) (*gatewayProcess, error) {
	config := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(config, gatewayConfig(dir, era, upstream, logLevel), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "gateway.log"))
	if err != nil {
		return nil, err
	}
	g := &gatewayProcess{done: make(chan struct{}), log: log}
	g.cmd = exec.CommandContext(ctx, binary, "run", "-c", config, "--listen", anyPort)
	g.cmd.Dir = dir
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		log.Close()
		return nil, err
	}
	go func() {
		defer close(g.done)
		g.cmd.Wait() // the log says why it ended
	}()
	if err := g.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, g.logTail(), g.Close())
	}
	return g, nil
}

func gatewayConfig(dir, era, upstream, logLevel string) []byte {
	config := fmt.Appendf(nil, `state_dir: %q
admin: {listen: %q}
upstreams:
  %s: {url: %q, transport: streamable-http, era: %s, required: true}
`, filepath.Join(dir, "state"), anyPort, gatewayUpstream, upstream, era)
	if logLevel != "" {
		config = fmt.Appendf(config, "telemetry: {log: {level: %s}}\n", logLevel)
	}
	return config
}

// greeting matches the gateway's first output: the URLs of its MCP endpoint and
// of its admin address.
var greeting = regexp.MustCompile(`(?m)^  MCP endpoint +(http://\S+)\n  admin +(http://\S+)`)

// awaitReady waits until the gateway has printed its URLs, sets g.URL, and polls
// the readiness address until the answer is 200.
func (g *gatewayProcess) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	probe := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the gateway is not ready after %s", readyTimeout)
		case <-g.done:
			return errors.New("the gateway ended before it was ready")
		case <-poll.C:
		}
		said, err := os.ReadFile(g.log.Name())
		if err != nil {
			return err
		}
		addresses := greeting.FindSubmatch(said)
		if addresses == nil {
			continue
		}
		g.URL = string(addresses[1])
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(addresses[2])+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := probe.Do(req)
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// logTail returns the end of the gateway's log as an error.
func (g *gatewayProcess) logTail() error {
	const most = 4096
	info, err := g.log.Stat()
	if err != nil {
		return err
	}
	tail, err := io.ReadAll(io.NewSectionReader(g.log, max(0, info.Size()-most), most))
	if err != nil {
		return err
	}
	return fmt.Errorf("its log ends:\n%s", tail)
}

// Close ends the gateway gracefully, or by force after a bounded wait, and
// returns when it has ended.
func (g *gatewayProcess) Close() error {
	g.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	select {
	case <-g.done:
	case <-time.After(stopTimeout):
		g.cmd.Process.Kill()
		<-g.done
	}
	return g.log.Close()
}
