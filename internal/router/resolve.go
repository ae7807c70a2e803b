package router

import (
	"context"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// resolve finds what the call names in the caller's view.
func (f *forwarding) resolve(ctx context.Context) (bool, error) {
	ref, _, err := namespace.ItemRefOf(f.call.Method, f.call.Params)
	if err == nil {
		err = checkArguments(f.call, f.method)
	}
	if err != nil {
		return false, err
	}
	return false, f.find(ctx, ref)
}

// find resolves a reference in the caller's view, and keeps the routes for the rest of
// the call.
func (f *forwarding) find(ctx context.Context, ref namespace.ItemRef) error {
	f.ref = ref
	routes, view, target, err := f.router.resolve(ctx, f.call, ref, &f.log)
	f.routes, f.view = routes, view
	if err != nil {
		return err
	}
	f.target, f.log.upstream = target, target.Part.Upstream()
	f.upstream = routes.Upstreams[f.log.upstream]
	switch {
	case target.Unconfirmed: // then it is a Granter: an upstream that is not known yet is not called
		f.upstream = f.upstream.(Granter).GrantRequest()
	case f.method.Kind == wire.KindMetadata:
		f.upstream = metadataUpstream{f.upstream}
	case f.method.Kind == wire.KindList:
		f.upstream = childrenUpstream{metadataUpstream{f.upstream}}
	}
	return nil
}

// checkArguments refuses arguments that are not an object, because the conditions of
// policy and what the audit leaves out are about members. Some clients write null for
// none.
func checkArguments(c *call.Call, m *wire.Method) error {
	if !m.HasArguments {
		return nil
	}
	switch given := wire.ValueOf(c.Params).Get("arguments"); {
	case !given.Exists(), given.Kind() == '{', given.Kind() == 'n':
		return nil
	}
	return wire.Errorf(wire.CodeInvalidParams, "%s: params.arguments must be an object", c.Method)
}

// resolve finds a reference in the caller's view. A name that no upstream has listed may belong to
// an upstream that is on its first attempt to connect: the call waits for that one, and
// not for others. The routes and the view are those that it was looked for in, also with
// an error.
func (r *Router) resolve(ctx context.Context, c *call.Call, ref namespace.ItemRef, log *logFields) (*Routes, *catalog.View, catalog.Target, error) {
	for {
		settled := r.hasStarted() // before the routes: they are complete when it is set
		now := r.now.Load()
		view := now.view(c.Principal, c.Client)
		target, ok := view.Resolve(ref.Kind, ref.Name)
		if ok {
			return now.Routes, view, target, nil
		}
		suspects := view.UnavailableFor(ref.Kind, ref.Name)
		switch {
		case len(suspects) == 1 && now.needsGrant(suspects[0].Upstream, c):
			if target, ok = view.ResolveUnavailable(ref.Kind, ref.Name, suspects[0].Upstream); ok {
				return now.Routes, view, target, nil
			}
			return now.Routes, view, target, catalog.UnavailableError(suspects)
		case len(suspects) == 0:
			return now.Routes, view, target, r.unknown(auditDecision, c, view, ref, target, log)
		case settled || !slices.ContainsFunc(suspects, func(u catalog.Unavailable) bool { return u.Starting }):
			return now.Routes, view, target, r.unavailable(c, view, ref, suspects, log)
		}
		select {
		case <-now.replaced:
		case <-r.started:
		case <-ctx.Done():
			return now.Routes, view, target, ctx.Err()
		}
	}
}

// unavailable returns the error of a call of an item that only upstreams may have which are not
// available. The audit has the decision about the name at the one upstream that may have it; if
// several may, there is no such item.
func (r *Router) unavailable(c *call.Call, view *catalog.View, ref namespace.ItemRef, suspects []catalog.Unavailable, log *logFields) error {
	var target catalog.Target
	known := false
	if len(suspects) == 1 {
		log.upstream = suspects[0].Upstream
		target, known = view.ResolveUnavailable(ref.Kind, ref.Name, log.upstream)
	}
	var err error
	if known {
		_, err = r.decide(auditDecision, c, itemOf(&target), target.Policy, log)
	} else {
		d := view.RefusalOf(ref.Kind, ref.Name, target)
		err = r.decided(auditDecision, c, auditedItem{kind: ref.Kind, public: ref.Name}, &d, log)
	}
	if err != nil {
		return err
	}
	return catalog.UnavailableError(suspects)
}
