package router

import (
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/wire"
)

// downlevel lowers a result to the client's revision.
func (f *forwarding) downlevel(result wire.Raw) (wire.Raw, error) {
	result, tally := downlevel.Result(f.call.Client.Revision, f.call.Method, f.result.Long.ValueOf(result))
	f.router.metrics.countDownlevel(tally)
	return result, nil
}
