package router

import (
	"context"

	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// validate answers a tool call whose arguments violate the tool's inputSchema, if the rules
// of the upstream have arguments checked. The gateway's own tools check theirs.
func (f *forwarding) validate(context.Context) (bool, error) {
	part, item := f.target.Part, f.target.Entry
	if f.call.Method != wire.MethodToolsCall || item == nil || item.Input == nil || part.Own() || !part.Rules().ValidateInput && f.call.Depth == 0 {
		return false, nil
	}
	arguments := wire.ValueOf(f.call.Params).Get("arguments").Raw()
	if arguments == nil {
		arguments = wire.Raw(`{}`)
	}
	refusal := toolschema.RejectArguments(f.target.Public, item.Input, arguments)
	if refusal == nil {
		return false, nil
	}
	f.router.metrics.invalidInputs.WithLabelValues(part.Upstream()).Inc()
	f.log.reason = "the arguments do not match the input schema; the server was not called"
	f.result.Raw = refusal
	return true, nil
}
