package httpconn

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Config says how to reach a server over HTTP.
type Config struct {
	URL *url.URL // http or https; user information in it becomes basic authentication
	// Headers are sent with every request. The values may be secrets and are never
	// logged. Headers of the protocol itself cannot be set.
	Headers map[string]string
	// Credentials are sent beside Headers; nil: there are none.
	Credentials Credentials

	DialContext func(ctx context.Context, network, addr string) (net.Conn, error) // nil: over the network
}

// HasCredentials reports whether requests carry configured credentials.
func (o *Config) HasCredentials() bool {
	for name := range o.Headers {
		if strings.EqualFold(name, "Authorization") || strings.Contains(strings.ToLower(name), "key") {
			return true
		}
	}
	return o.Credentials != nil
}

// Credentials prove to a server who calls. Their methods are called by many
// goroutines at once. The text of their errors is for clients, save for that of what
// an error unwraps to.
type Credentials interface {
	// Headers returns headers of a request, by canonical names, which go before any
	// others. who is the principal whose call it belongs to, or whose session; nil for
	// what the gateway does on its own behalf.
	Headers(ctx context.Context, who *call.Principal) (http.Header, error)
	// Refused says that the server has answered a request with these headers with
	// status 401 or 403, and what the headers of the answer are. It reports whether to
	// send the request once more, with the headers that there are then. An error
	// takes the place of the server's answer.
	Refused(ctx context.Context, who *call.Principal, sent http.Header, status int, answer http.Header) (again bool, err error)
}

// ToolHeaders knows which parameters of the server's tools go into headers too
// (2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool
// Parameters"). Whoever lists the tools knows, and leaves those out whose
// annotations [wire.HeaderParams] refuses.
type ToolHeaders interface {
	// headerParams returns the parameters of the tool with a native name, nil
	// for a tool without any. It must not block.
	HeaderParams(tool string) []wire.HeaderParam
	// relist lists the tools again, and returns when headerParams knows them.
	Relist(ctx context.Context) error
}
