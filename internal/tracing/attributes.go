package tracing

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Names of attributes: semantic conventions for MCP, open-telemetry/semantic-conventions-genai,
// model/mcp. Those of the gateway begin with its name.
const (
	attrMethod   = attribute.Key("mcp.method.name")
	attrRevision = attribute.Key("mcp.protocol.version")
	attrResource = attribute.Key("mcp.resource.uri")
	attrID       = attribute.Key("jsonrpc.request.id")
	attrCode     = attribute.Key("rpc.response.status_code")
	attrError    = attribute.Key("error.type")
	attrTool     = attribute.Key("gen_ai.tool.name")
	attrPrompt   = attribute.Key("gen_ai.prompt.name")
	attrAction   = attribute.Key("gen_ai.operation.name")
	attrNetwork  = attribute.Key("network.transport")
	attrProtocol = attribute.Key("network.protocol.name")
	attrAddress  = attribute.Key("server.address")
	attrPort     = attribute.Key("server.port")

	attrRequest  = attribute.Key("mcpgateway.request.id")
	attrProfile  = attribute.Key("mcpgateway.profile")
	attrUpstream = attribute.Key("mcpgateway.upstream")
	attrRule     = attribute.Key("mcpgateway.rule")
	attrOutcome  = attribute.Key("mcpgateway.outcome")
	attrDropped  = attribute.Key("mcpgateway.dropped_spans")
)

// maxText bounds text of clients in an attribute, in bytes.
const maxText = 128

// itemName returns the item that the request of a span names, "" for none.
func (s *span) itemName() string {
	if s.call != nil && s.call.end != nil {
		return plaintext.Clip(s.call.end.Item, maxText)
	}
	return plaintext.Clip(s.item, maxText)
}

// name returns the name of a span: its method, with the tool or prompt, but not with a URI, of which
// there may be any number.
func (s *span) name() string {
	item := s.itemName()
	switch {
	case s.method == "":
		return s.stage.String()
	case item == "" || wire.MethodOf(s.method).Item == wire.ItemResource:
		return s.method
	default:
		return s.method + " " + item
	}
}

// attributes returns the attributes of a span that has ended, and whether it has failed.
func (s *span) attributes() (out []attribute.KeyValue, failed bool) {
	out = make([]attribute.KeyValue, 0, 16)
	add := func(key attribute.Key, value string) {
		if value != "" {
			out = append(out, key.String(value))
		}
	}
	add(attrMethod, s.method)
	if item := s.itemName(); item != "" {
		out = appendItem(out, s.method, item)
	}
	switch {
	case s.call != nil:
		add(attrRequest, s.call.request)
		add(attrID, plaintext.Clip(strings.Trim(s.call.message, `"`), maxText))
		add(attrRevision, string(s.call.revision))
		add(attrProfile, s.call.profile)
		add(attrUpstream, s.call.end.Upstream)
		add(attrRule, s.call.end.Rule)
		add(attrOutcome, s.call.end.Outcome)
		out = appendNetwork(out, s.call.overHTTP)
	case s.stage == call.StageUpstream:
		add(attrUpstream, s.upstream)
		add(attrRevision, string(s.revision))
		if s.peer != nil {
			out = appendNetwork(out, s.peer.OverHTTP)
			add(attrAddress, s.peer.Address)
			if s.peer.Port != 0 {
				out = append(out, attrPort.Int(s.peer.Port))
			}
		}
	case s.kind == trace.SpanKindClient: // a request to the client
		add(attrUpstream, s.upstream)
		add(attrRevision, string(s.record.rootCall.revision))
		out = appendNetwork(out, s.record.rootCall.overHTTP)
	default:
		add(attrUpstream, s.upstream)
	}
	return s.appendError(out)
}

// appendItem appends the attributes of the item that a request names.
func appendItem(out []attribute.KeyValue, method, item string) []attribute.KeyValue {
	switch wire.MethodOf(method).Item {
	case wire.ItemTool:
		return append(out, attrTool.String(item), attrAction.String("execute_tool"))
	case wire.ItemPrompt:
		return append(out, attrPrompt.String(item))
	default:
		return append(out, attrResource.String(item))
	}
}

func appendNetwork(out []attribute.KeyValue, overHTTP bool) []attribute.KeyValue {
	if !overHTTP {
		return append(out, attrNetwork.String("pipe"))
	}
	return append(out, attrNetwork.String("tcp"), attrProtocol.String("http"))
}

// appendError appends the attributes of the error with which a span ended, and reports whether the
// span has failed. A server has not failed if the client has sent what it cannot serve.
func (s *span) appendError(out []attribute.KeyValue) (_ []attribute.KeyValue, failed bool) {
	kind := errorType(s.err, s.call != nil && s.call.end.ToolError)
	if rpc, ok := errors.AsType[*wire.Error](s.err); ok {
		out = append(out, attrCode.String(kind))
		if s.kind != trace.SpanKindClient && isFaultOfCaller(rpc.Code) {
			return out, false
		}
	}
	if kind == "" {
		return out, false
	}
	return append(out, attrError.String(kind)), true
}

// isFaultOfCaller reports whether an error says that the caller has sent what cannot be served.
func isFaultOfCaller(code int64) bool {
	switch code {
	case wire.CodeParse, wire.CodeInvalidRequest, wire.CodeMethodNotFound, wire.CodeInvalidParams, wire.CodeResourceNotFound:
		return true
	default:
		return false
	}
}

// errorType returns the class of the error with which a call or stage ended, "" for none.
func errorType(err error, toolError bool) string {
	switch rpc, ok := errors.AsType[*wire.Error](err); {
	case ok:
		return strconv.FormatInt(rpc.Code, 10)
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case err != nil:
		return "_OTHER"
	case toolError:
		return "tool_error"
	default:
		return ""
	}
}
