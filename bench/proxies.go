package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// poolTransport returns the HTTP transport of both proxies. It keeps an idle
// connection for every client; the default transport keeps two and would dial
// for most calls. trust is a file with a trusted certificate, "" for none.
func poolTransport(trust string) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.MaxIdleConns = 0 // no limit
	t.MaxIdleConnsPerHost = 512
	t.DisableCompression = true
	if trust != "" {
		var err error
		if t.TLSClientConfig, err = clientTLS(trust); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// newReverseProxy returns a proxy that forwards everything to the origin of
// target. close ends its idle connections.
func newReverseProxy(target *url.URL, trust string) (handler http.Handler, close func() error, err error) {
	transport, err := poolTransport(trust)
	if err != nil {
		return nil, nil, err
	}
	p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	p.Transport = transport
	handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Otherwise the server closes the request's body once a large answer begins.
		// The transport may still be looking for the end of that body, would fail, and
		// would cut the answer off.
		http.NewResponseController(w).EnableFullDuplex()
		p.ServeHTTP(w, r)
	})
	return handler, func() error {
		transport.CloseIdleConnections()
		return nil
	}, nil
}

// newTypedProxy connects to the target with the SDK's client and serves its tools
// with the SDK's server. It answers in JSON, which is cheaper than streams. The
// client's session ends with ctx; close ends it earlier and waits.
func newTypedProxy(ctx context.Context, r role) (handler http.Handler, close func() error, err error) {
	upstream, closeIdle, err := typedUpstream(r)
	if err != nil {
		return nil, nil, err
	}
	me := &mcp.Implementation{Name: "typed-proxy", Version: "1"}
	session, err := mcp.NewClient(me, nil).Connect(ctx, upstream, &mcp.ClientSessionOptions{ProtocolVersion: revision(r.Era)})
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the upstream: %w", err)
	}
	listCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tools, err := session.ListTools(listCtx, nil)
	if err != nil {
		session.Close()
		return nil, nil, fmt.Errorf("listing the upstream's tools: %w", err)
	}
	server := mcp.NewServer(me, nil)
	for _, tool := range tools.Tools {
		server.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return session.CallTool(ctx, &mcp.CallToolParams{Name: req.Params.Name, Arguments: req.Params.Arguments})
		})
	}
	// A handler of the SDK serves one era: the legacy one with sessions, the modern
	// one without.
	handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: r.Era == eraModern})
	return handler, func() error {
		defer closeIdle()
		return session.Close()
	}, nil
}

// typedUpstream returns the SDK's transport to the target of the typed proxy.
func typedUpstream(r role) (transport mcp.Transport, closeIdle func(), err error) {
	if r.Target == roleStdio {
		self, err := os.Executable()
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CommandTransport{Command: exec.Command(self, stdioArgs()...)}, func() {}, nil
	}
	target, err := parseTarget(r.Target)
	if err != nil {
		return nil, nil, err
	}
	pool, err := poolTransport(r.Trust)
	if err != nil {
		return nil, nil, err
	}
	return &mcp.StreamableClientTransport{
		Endpoint:             target.String(),
		HTTPClient:           &http.Client{Transport: pool},
		DisableStandaloneSSE: true,
	}, pool.CloseIdleConnections, nil
}

// stdioArgs returns the arguments with which this program is a stdio server.
func stdioArgs() []string { return []string{"-role", `{"kind":"` + roleStdio + `"}`} }
