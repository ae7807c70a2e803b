package router

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/enrich"
	"mcpgateway/internal/wire"
)

// enrich adds the members of SEP-2093 that a result, under public names, lacks. It removes the
// contents that the caller may not read from a read.
func (f *forwarding) enrich(result wire.Raw) (wire.Raw, error) {
	switch {
	case f.method.Shape == wire.ShapeContents:
		f.refreshTarget()
		return f.view.Enrich(f.target, f.view.FilterContents(f.target, result)), nil
	case !f.view.Enriches():
		return result, nil
	}
	at := f.itemResult(result)
	if !at.Exists() {
		return result, nil
	}
	enriched := enrich.Annotations(f.itemMethod(), at)
	return f.replaceItemResult(result, at, enriched), nil
}

// refreshTarget resolves the target once more if the upstream was down when the call
// began: by now it has answered, and what it lists may be known. It is the one look at
// newer routes on the way of a result.
func (f *forwarding) refreshTarget() {
	if f.target.Part.Down() == nil {
		return
	}
	routes := f.router.Routes()
	now := routes.view(f.call.Principal, f.call.Client)
	if target, ok := now.Resolve(call.Resource, f.target.Public); ok && target.Part.Upstream() == f.upstreamName() {
		f.routes, f.view, f.target = routes, now, target
	}
}

// itemResult returns where a message holds the result of the item that was used: a
// tasks/get has it in a member, or not at all, and a request about a task that has no
// such result has none.
func (f *forwarding) itemResult(message wire.Raw) wire.Value {
	at := f.result.Long.ValueOf(message)
	switch {
	case f.task == nil, f.method.Shape == wire.ShapeToolResult:
		return at
	case f.method.Shape == wire.ShapeTask:
		return at.Get("result")
	default:
		return wire.Value{}
	}
}

// replaceItemResult returns the message with another result at that place.
func (f *forwarding) replaceItemResult(message wire.Raw, at wire.Value, result wire.Raw) wire.Raw {
	switch {
	case f.method.Shape != wire.ShapeTask:
		return result
	case len(result) > 0 && len(at.Raw()) > 0 && &result[0] == &at.Raw()[0]:
		return message // nothing has changed
	}
	e := wire.NewEdit(message)
	e.Replace(at, result)
	return e.Bytes()
}
