package router

import "mcpgateway/internal/wire"

// sanitize removes the parts of a result that the upstream's rules do not permit.
func (f *forwarding) sanitize(result wire.Raw) (wire.Raw, error) {
	result, taken := f.target.Part.Rules().Sanitize.Result(result)
	f.router.metrics.countSanitized(f.target.Part.Upstream(), taken)
	return result, nil
}

// sanitizeError does the same for an error.
func (f *forwarding) sanitizeError(e *wire.Error) *wire.Error {
	e, taken := f.target.Part.Rules().Sanitize.Error(e)
	f.router.metrics.countSanitized(f.target.Part.Upstream(), taken)
	return e
}
