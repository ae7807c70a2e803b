package router

import (
	"context"

	"mcpgateway/internal/wire"
)

// complete answers completions that no upstream is asked for.
func (f *forwarding) complete(context.Context) (bool, error) {
	switch {
	case f.method.Kind != wire.KindComplete:
		return false, nil
	case f.mayMask():
		// Servers complete what they do not have to nothing: only what is listed is completed.
		return false, notFound(f.call, f.view, f.ref)
	case f.decision.NeedsConfirmation(), // else the user would be asked at every key
		!wire.ValueOf(f.target.Part.Capabilities()).Get("completions").Exists(): // the gateway declares completions for all its upstreams
		f.result.Raw = wire.Raw(`{"completion":{"values":[]}}`)
		return true, nil
	}
	return false, nil
}
