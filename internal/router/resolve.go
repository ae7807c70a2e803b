package router

import (
	"context"
	"errors"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// resolve finds what the call names in the caller's view.
func (f *forwarding) resolve(ctx context.Context) (bool, error) {
	ref, _, err := namespace.ItemRefOf(f.call.Method, f.call.Params)
	if err == nil {
		if err = checkArguments(f.call, f.method); err != nil { // the name of a tool or prompt, which is no argument
			f.log.item = plaintext.Clip(f.router.masked(ref.Name), maxAuditItem)
		}
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

// resolve finds a reference in the caller's view, see lookUp. The routes and the view are those that
// it was looked for in, also with an error.
func (r *Router) resolve(ctx context.Context, c *call.Call, ref namespace.ItemRef, log *logFields) (*Routes, *catalog.View, catalog.Target, error) {
	l, err := r.lookUp(ctx, c, ref)
	switch {
	case err != nil || l.ok:
	case l.ungranted:
		err = catalog.UnavailableError(l.suspects)
	case len(l.suspects) > 0:
		if err = r.decideUnavailable(auditDecision, c, l.view, ref, l.suspects, log); err == nil {
			err = l.unavailable()
		}
	default:
		err = r.unknown(auditDecision, c, l.view, ref, l.target, log)
	}
	return l.routes, l.view, l.target, err
}

// lookup is where a reference was looked for, and what was found.
type lookup struct {
	routes    *Routes
	view      *catalog.View
	target    catalog.Target
	ok        bool                  // target is what the reference names
	suspects  []catalog.Unavailable // otherwise: to which of these upstreams it may belong
	ungranted bool                  // there is one suspect, and the caller has to grant access to it
	failed    error                 // why the attempt to connect to the suspects failed that was made for the call, nil for none
}

// unavailable returns the error of a call of an item that only the suspects may have.
func (l *lookup) unavailable() error {
	if rpc, ok := errors.AsType[*wire.Error](l.failed); ok && len(l.suspects) == 1 {
		return rpc // the reason in the table may be older
	}
	return catalog.UnavailableError(l.suspects)
}

// lookUp looks for a reference in the caller's view. A name that no upstream has listed may belong to
// an upstream that is on its first attempt to connect, or to one whose attempts have failed so far:
// lookUp waits for that one, and not for others. In the second case it has an attempt made. The error is
// that of ctx.
func (r *Router) lookUp(ctx context.Context, c *call.Call, ref namespace.ItemRef) (lookup, error) {
	var waited bool // for a first attempt
	var again *reconnection
	defer func() { again.end() }()
	for {
		settled := r.hasStarted() // before the routes: they are complete when it is set
		now := r.now.Load()
		l := lookup{routes: now.Routes, view: now.view(c.Principal, c.Client)}
		if l.target, l.ok = l.view.Resolve(ref.Kind, ref.Name); l.ok {
			return l, nil
		}
		l.suspects = l.view.UnavailableFor(ref.Kind, ref.Name)
		started := r.started
		switch {
		case len(l.suspects) == 1 && now.needsGrant(l.suspects[0].Upstream, c):
			l.ungranted = true
			if target, ok := l.view.ResolveUnavailable(ref.Kind, ref.Name, l.suspects[0].Upstream); ok {
				l.target, l.ok = target, true
			}
			return l, nil
		case again == nil && !settled && slices.ContainsFunc(l.suspects, func(u catalog.Unavailable) bool { return u.Starting }):
			waited = true
		case waited:
			return l, nil
		default:
			lost := l.lost(c)
			if again == nil && len(lost) > 0 {
				again = reconnect(ctx, lost, c)
			}
			if l.failed = again.failed(); len(lost) == 0 || l.failed != nil {
				return l, nil
			}
			started = nil
		}
		select {
		case <-now.replaced:
		case <-started:
		case <-again.ended():
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
}

// decideUnavailable records the decision about a call of an item that only upstreams may have which are
// not available. The audit has the decision about the name at the one upstream that may have it; if
// several may, there is no such item. The error is that of the audit.
func (r *Router) decideUnavailable(event string, c *call.Call, view *catalog.View, ref namespace.ItemRef, suspects []catalog.Unavailable, log *logFields) error {
	var target catalog.Target
	known := false
	if len(suspects) == 1 {
		upstream := suspects[0].Upstream
		if target, known = view.ResolveUnavailable(ref.Kind, ref.Name, upstream); log != nil {
			log.upstream = upstream
		}
	}
	var err error
	if known {
		_, err = r.decide(event, c, itemOf(&target), target.Policy, log)
	} else {
		d := view.RefusalOf(ref.Kind, ref.Name, target)
		err = r.decided(event, c, auditedItem{kind: ref.Kind, public: ref.Name}, &d, log)
	}
	return err
}
