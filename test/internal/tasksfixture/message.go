package main

import (
	"encoding/json"
	"fmt"
)

// object is a JSON object that the server sends or receives.
type object = map[string]any

// message is one JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *fault          `json:"error,omitempty"`
}

// fault is a JSON-RPC error object.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (f *fault) Error() string { return fmt.Sprintf("%s (%d)", f.Message, f.Code) }

func faultf(code int, format string, args ...any) *fault {
	return &fault{Code: code, Message: fmt.Sprintf(format, args...)}
}

// The error codes of the server.
const (
	invalidRequest    = -32600
	methodNotFound    = -32601
	invalidParams     = -32602
	headerMismatch    = -32020
	missingCapability = -32021
	unsupportedRev    = -32022
)

// The revisions that the server supports, one of each era.
const (
	legacyRevision = "2025-11-25"
	modernRevision = "2026-07-28"
)

// Members of _meta, and the name of the extension.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	metaRelated      = "io.modelcontextprotocol/related-task"
	extension        = "io.modelcontextprotocol/tasks"
)

// params are the members of requests that the server reads.
type params struct {
	Name           string                     `json:"name"`
	Arguments      json.RawMessage            `json:"arguments"`
	Task           *object                    `json:"task"`
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
	RequestState   string                     `json:"requestState"`
	Notifications  struct {
		TaskIDs []string `json:"taskIds"`
	} `json:"notifications"`
	Meta struct {
		Version      string `json:"io.modelcontextprotocol/protocolVersion"`
		Capabilities *struct {
			Extensions map[string]any `json:"extensions"`
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
}

// modern reports whether the request has _meta members that only modern requests have.
func (p *params) modern() bool { return p.Meta.Version != "" || p.Meta.Capabilities != nil }

// takesTasks reports whether a modern client declared the extension.
func (p *params) takesTasks() bool {
	return p.Meta.Capabilities != nil && p.Meta.Capabilities.Extensions[extension] != nil
}

// readParams parses the params of a request. Missing params are empty.
func readParams(raw json.RawMessage) (*params, *fault) {
	p := &params{}
	if len(raw) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, faultf(invalidParams, "invalid params: %v", err)
	}
	return p, nil
}

func request(id any, method string, params object) object {
	return object{"jsonrpc": "2.0", "id": id, "method": method, "params": params}
}

func notification(method string, params object) object {
	return object{"jsonrpc": "2.0", "method": method, "params": params}
}

// response returns the response to a request: an error if f is not nil.
func response(id json.RawMessage, result object, f *fault) object {
	if f != nil {
		return object{"jsonrpc": "2.0", "id": id, "error": f}
	}
	return object{"jsonrpc": "2.0", "id": id, "result": result}
}

// encode returns a message as one line. All messages of the server can be encoded.
func encode(m object) []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return text
}
