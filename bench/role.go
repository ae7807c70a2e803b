package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

// The roles in which the program starts itself: the upstream, and the proxies,
// which have the names of their paths.
const (
	roleUpstream = "upstream"
	roleReverse  = pathReverse
	roleTyped    = pathTyped
)

// serveRole listens on a free loopback port, writes "http://host:port/mcp" and a
// newline to ready, and serves the role until a read from stop ends. A child thus
// ends with its parent. target is the upstream's URL for proxies.
func serveRole(role, era, target string, stop io.Reader, ready io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	handler, closeHandler, err := roleHandler(ctx, role, era, target)
	if err != nil {
		return fmt.Errorf("role %s: %w", role, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("role %s: %w", role, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(ready, "http://%s/mcp\n", listener.Addr())

	io.Copy(io.Discard, stop) // the role ends at EOF or an error
	server.Close()
	<-served
	return closeHandler()
}

func roleHandler(ctx context.Context, role, era, target string) (handler http.Handler, close func() error, err error) {
	if role == roleUpstream {
		return rawUpstream{}, func() error { return nil }, nil
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return nil, nil, fmt.Errorf("-target %q is not the URL of an upstream", target)
	}
	switch role {
	case roleReverse:
		handler, close := newReverseProxy(u)
		return handler, close, nil
	case roleTyped:
		return newTypedProxy(ctx, u, era)
	default:
		return nil, nil, fmt.Errorf("unknown; the roles are %s, %s, %s", roleUpstream, roleReverse, roleTyped)
	}
}

// child is a process of this program in a role.
type child struct {
	URL string // of the MCP endpoint

	cmd   *exec.Cmd
	stdin io.Closer
}

// startRole starts this program again in a role and waits until it serves. The
// caller must call Close.
func startRole(ctx context.Context, role, era, target string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-role", role, "-era", era, "-target", target)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("the %s process ended before it served", role)
	}
	c.URL = strings.TrimSpace(line)
	return c, nil
}

// Close ends the process and waits for it.
func (c *child) Close() error {
	c.stdin.Close()
	return c.cmd.Wait()
}
