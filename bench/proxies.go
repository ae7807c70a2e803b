package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// poolTransport returns the HTTP transport of both proxies. It keeps an idle
// connection for every client; the default transport keeps two and would dial
// for most calls.
func poolTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.MaxIdleConns = 0 // no limit
	t.MaxIdleConnsPerHost = 256
	t.DisableCompression = true
	return t
}

// newReverseProxy returns a proxy that forwards everything to the origin of
// target. close ends its idle connections.
func newReverseProxy(target *url.URL) (handler http.Handler, close func() error) {
	transport := poolTransport()
	p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	p.Transport = transport
	return p, func() error {
		transport.CloseIdleConnections()
		return nil
	}
}

// newTypedProxy connects to target with the SDK's client and serves the tools of
// target with the SDK's server. It answers in JSON, which is cheaper than
// streams. The client's session ends with ctx; close ends it earlier and waits.
func newTypedProxy(ctx context.Context, target *url.URL, era string) (handler http.Handler, close func() error, err error) {
	transport := poolTransport()
	me := &mcp.Implementation{Name: "typed-proxy", Version: "1"}
	session, err := mcp.NewClient(me, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             target.String(),
		HTTPClient:           &http.Client{Transport: transport},
		DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: revision(era)})
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
		&mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: era == eraModern})
	return handler, func() error {
		defer transport.CloseIdleConnections()
		return session.Close()
	}, nil
}
