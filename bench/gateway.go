package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	gatewayPackage  = "mcpgateway/cmd/gateway"
	gatewayUpstream = "bench"
	gatewayTool     = gatewayUpstream + "__" + toolName

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
	URL string // where it serves MCP

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	log  *os.File
}

// startGateway writes a configuration with one upstream into dir, starts the
// binary with it and waits until it is ready. What the configuration does not
// name has its default, the log level excepted where logLevel is given. Close
// must be called on the process.
func startGateway(ctx context.Context, binary, dir, era, upstream, logLevel string) (*gatewayProcess, error) {
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(config, gatewayConfig(dir, era, upstream, admin, logLevel), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "gateway.log"))
	if err != nil {
		return nil, err
	}
	g := &gatewayProcess{URL: "http://" + listen + "/mcp", done: make(chan struct{}), log: log}
	g.cmd = exec.CommandContext(ctx, binary, "run", "-c", config, "--listen", listen)
	g.cmd.Dir = dir
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		log.Close()
		return nil, err
	}
	go func() {
		defer close(g.done)
		g.cmd.Wait() // how it ended is told by its log
	}()
	if err := g.awaitReady(ctx, "http://"+admin+"/readyz"); err != nil {
		return nil, errors.Join(err, g.logTail(), g.Close())
	}
	return g, nil
}

func gatewayConfig(dir, era, upstream, admin, logLevel string) []byte {
	config := fmt.Appendf(nil, `state_dir: %q
admin: {listen: %q}
upstreams:
  %s: {url: %q, transport: streamable-http, era: %s, required: true}
`, filepath.Join(dir, "state"), admin, gatewayUpstream, upstream, era)
	if logLevel != "" {
		config = fmt.Appendf(config, "telemetry: {log: {level: %s}}\n", logLevel)
	}
	return config
}

// awaitReady polls the readiness address until it says 200.
func (g *gatewayProcess) awaitReady(ctx context.Context, url string) error {
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
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := probe.Do(req)
		if err != nil {
			continue // it does not listen yet
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// logTail is the end of what the gateway logged, as an error.
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
	g.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-g.done:
	case <-time.After(stopTimeout):
		g.cmd.Process.Kill()
		<-g.done
	}
	return g.log.Close()
}

// freeAddress finds a loopback address that nobody listens on now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
