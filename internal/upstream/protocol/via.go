package protocol

import (
	"net/http"
	"strings"

	"mcpgateway/internal/wire"
)

// The names under which gateways tell one another who they are, so that a chain
// of them which leads back to its beginning is found out: without that it would
// list its own tools again and again, under ever longer names.
//
//	HeaderVia   on every HTTP request of a gateway to a server, and on the answers to such requests
//	MetaVia     in _meta of initialize and server/discover, and of their results: it passes
//	            what knows nothing of the headers, such as a bridge from stdio to HTTP
//	VariableVia in the environment of programs that a gateway starts
//
// Each holds ids of processes, which nobody can guess, with commas in between.
const (
	HeaderVia   = "Mcp-Gateway-Via"
	MetaVia     = "mcpgateway/via"
	VariableVia = "MCP_GATEWAY_VIA"
)

// ViaOf returns what the headers of a request or an answer say.
func ViaOf(h http.Header) string { return strings.Join(h[HeaderVia], ",") }

// ViaIn returns what the _meta of params or a result says, "" for nothing.
func ViaIn(doc wire.Raw) string { return wire.ValueOf(doc).Get("_meta", MetaVia).Str() }
