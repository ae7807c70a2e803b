package upstream

import (
	"context"
	"net/url"

	"mcpgateway/internal/wire"
)

// Transport names a way to speak MCP over HTTP.
type Transport string

// The transports over HTTP. The zero value is TransportAuto.
const (
	// TransportAuto finds out what the server offers, see [httpDialer].
	TransportAuto Transport = ""
	// TransportStreamable is streamable HTTP, of either era.
	TransportStreamable Transport = "streamable-http"
	// TransportSSE is HTTP+SSE of revision 2024-11-05.
	TransportSSE Transport = "sse"
)

// HTTPOptions says where a server is that is reached over HTTP.
type HTTPOptions struct {
	URL *url.URL // http or https; user information in it becomes basic authentication
	// Headers go with every request. The values may be secrets and are never
	// logged. Headers of the protocol itself cannot be set.
	Headers   map[string]string
	Transport Transport
}

// toolHeaders knows which parameters of the server's tools go into headers too
// (2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool
// Parameters"). Whoever lists the tools knows, and leaves those out whose
// annotations [wire.HeaderParams] refuses.
type toolHeaders interface {
	// headerParams returns the parameters of the tool with a native name, nil
	// for a tool without any. It must not block.
	headerParams(tool string) []wire.HeaderParam
	// relist lists the tools again, and returns when headerParams knows them.
	relist(ctx context.Context) error
}
