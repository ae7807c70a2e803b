package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// The kinds of roles in which the program starts itself.
const (
	roleUpstream = "upstream"
	roleReverse  = "reverse"
	roleTyped    = "typed"
	roleFiles    = "files"
	roleStdio    = "stdio"
)

// role is what a child of this program serves. It travels as JSON in -role.
type role struct {
	Kind   string `json:"kind"`
	Era    string `json:"era,omitempty"`    // of the typed proxy
	Target string `json:"target,omitempty"` // URL of the upstream of a proxy; of the typed proxy also the kind stdio
	Dir    string `json:"dir,omitempty"`    // folder that is served as files
	Gzip   bool   `json:"gzip,omitempty"`   // whether the files exist compressed
	Certs  string `json:"certs,omitempty"`  // folder of certificates: serve TLS
	Trust  string `json:"trust,omitempty"`  // certificate that proxies trust
	Tools  int    `json:"tools,omitempty"`  // how many tools the upstream lists beside its own
	// Updates makes the upstream offer a resource with subscriptions.
	Updates bool `json:"updates,omitempty"`
}

// serveRole listens on a free loopback port, writes "http://host:port/mcp" and a
// newline to ready, and serves the role until a read from stop ends. A child thus
// ends with its parent. The stdio server speaks MCP over stop and ready instead.
func serveRole(r role, stop io.Reader, ready io.Writer) error {
	if r.Kind == roleStdio {
		return serveLines(stop, ready)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	handler, closeHandler, err := roleHandler(ctx, r)
	if err != nil {
		return fmt.Errorf("role %s: %w", r.Kind, err)
	}
	listener, err := net.Listen("tcp", anyPort)
	if err != nil {
		return fmt.Errorf("role %s: %w", r.Kind, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	scheme, serve := "http", server.Serve
	if r.Certs != "" {
		scheme = "https"
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
		if server.TLSConfig, err = serverTLS(r.Certs); err != nil {
			return fmt.Errorf("role %s: %w", r.Kind, err)
		}
	}
	served := make(chan error, 1)
	go func() { served <- serve(listener) }()
	fmt.Fprintf(ready, "%s://%s/mcp\n", scheme, listener.Addr())

	io.Copy(io.Discard, stop) // the role ends at EOF or an error
	server.Close()
	<-served
	return closeHandler()
}

func roleHandler(ctx context.Context, r role) (handler http.Handler, close func() error, err error) {
	nothing := func() error { return nil }
	switch r.Kind {
	case roleUpstream:
		return newRawUpstream(r), nothing, nil
	case roleFiles:
		if info, err := os.Stat(r.Dir); err != nil || !info.IsDir() {
			return nil, nil, fmt.Errorf("dir %q is not a folder", r.Dir)
		}
		return fileServer(r.Dir, r.Gzip), nothing, nil
	case roleReverse:
		target, err := parseTarget(r.Target)
		if err != nil {
			return nil, nil, err
		}
		return newReverseProxy(target, r.Trust)
	case roleTyped:
		return newTypedProxy(ctx, r)
	default:
		return nil, nil, errors.New("unknown kind")
	}
}

func parseTarget(target string) (*url.URL, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("target %q is not the URL of an upstream", target)
	}
	return u, nil
}
