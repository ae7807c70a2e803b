package protocol

import (
	"net/http"
	"strings"

	"mcpgateway/internal/wire"
)

// The names under which gateways send their ids to each other. They detect a chain of
// gateways that leads back to itself, which would list its own tools again and again
// under ever longer names.
//
//	HeaderVia   on every HTTP request of a gateway to a server, and on the responses
//	MetaVia     in _meta of initialize and server/discover, and of their results: it passes
//	            programs that know no headers, such as a bridge from stdio to HTTP
//	VariableVia in the environment of programs that a gateway starts
//
// Each holds random ids of processes, separated by commas.
const (
	HeaderVia   = "Mcp-Gateway-Via"
	MetaVia     = "mcpgateway/via"
	VariableVia = "MCP_GATEWAY_VIA"
)

// ViaOf returns the ids in the headers of a request or a response.
func ViaOf(h http.Header) string { return strings.Join(h[HeaderVia], ",") }

// ViaIn returns the ids in the _meta of params or of a result, "" for none.
func ViaIn(doc wire.Raw) string { return wire.ValueOf(doc).Get("_meta", MetaVia).Str() }
