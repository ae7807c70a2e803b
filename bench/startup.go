package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// startup describes a path on which each turn starts a gateway with many
// upstreams.
type startup struct {
	Upstreams int
	Stdio     bool
}

func (u startup) path(name string) path {
	return path{Name: name, Via: viaGateway, Metrics: []metric{toReady, toCall}, Start: func(_ context.Context, s *stage) (measure, error) {
		return func(ctx context.Context) (sample, error) { return u.measure(ctx, s) }, nil
	}}
}

// measure starts a gateway and makes a call at its last upstream.
func (u startup) measure(ctx context.Context, s *stage) (figures sample, err error) {
	upstream, err := s.role(ctx, role{Kind: roleUpstream})
	if err != nil {
		return nil, err
	}
	turn := s.forTurn()
	defer func() { err = errors.Join(err, turn.Close()) }()
	config := newGatewayConfig(turn.newFile("gateway"))
	tool := ""
	for i := range u.Upstreams {
		name := fmt.Sprintf("up%02d", i)
		if !u.Stdio {
			tool = config.addUpstream(name, fmt.Sprintf("%s/%d", upstream.URL, i), eraLegacy)
		} else if tool, err = config.addCommand(name); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	g, err := turn.startGateway(ctx, config)
	if err != nil {
		return nil, err
	}
	ready := time.Since(began)
	c, err := openClient(ctx, &target{URL: g.URL, Era: eraLegacy, Tools: []string{tool}, callArguments: callArguments{Size: 100}}, 0)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.call(); err != nil {
		return nil, err
	}
	return sample{toReady: milliseconds(ready), toCall: milliseconds(time.Since(began)), resident: float64(residentBytes(g.PID)) / (1 << 20)}, nil
}

// startServers starts n stdio servers at once and performs the handshake with
// each, as a host without a gateway does.
func startServers(ctx context.Context, n int) (figures sample, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	servers := make([]*exec.Cmd, n)
	defer func() {
		for _, cmd := range servers {
			if cmd != nil && cmd.Process != nil {
				cmd.Process.Kill()
				cmd.Wait()
			}
		}
	}()
	for i := range servers {
		servers[i] = exec.CommandContext(ctx, self, stdioArgs()...)
	}
	err = inParallel(n, openAtOnce, func(i int) error { return greet(servers[i]) })
	took := milliseconds(time.Since(began))
	return sample{toReady: took, toCall: took}, err
}

// greet starts a server and exchanges what a host needs before a call.
func greet(server *exec.Cmd) error {
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	answers := bufio.NewReader(out)
	for _, request := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + legacyRevision + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
	} {
		if _, err := io.WriteString(in, request+"\n"); err != nil {
			return err
		}
		answer, err := answers.ReadString('\n')
		if err != nil || !strings.Contains(answer, `"result"`) {
			return fmt.Errorf("the server answers %.200q: %w", answer, err)
		}
	}
	return nil
}

func startWorkload(n int) workload {
	const none, stdio, http, one = "no gateway, stdio", "stdio", "HTTP", "one HTTP"
	return workload{
		Name:  "start",
		About: fmt.Sprintf("A gateway starts with %d upstreams, over stdio or HTTP, until it is ready and has answered a call. On the path %q the servers are started at once, and each is greeted and lists its tools.", n, none),
		Paths: []path{
			{Name: none, Start: func(context.Context, *stage) (measure, error) {
				return func(ctx context.Context) (sample, error) { return startServers(ctx, n) }, nil
			}},
			startup{Upstreams: n, Stdio: true}.path(stdio),
			startup{Upstreams: n}.path(http),
			startup{Upstreams: 1}.path(one),
		},
		Ratios: []ratio{
			{Metric: toReady, Of: stdio, To: none}, {Metric: toCall, Of: stdio, To: none},
			{Metric: toReady, Of: http, To: one}, {Metric: toCall, Of: http, To: one},
		},
	}
}
