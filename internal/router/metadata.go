package router

import (
	"context"
	"errors"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/enrich"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// metadata answers resources/metadata (SEP-2093): the upstream does if it knows
// the method, else the catalog.
func (r *Router) metadata(ctx context.Context, c *call.Call, n *noted) (call.Result, string, error) {
	ref, _, err := namespace.RefOf(c.Method, c.Params)
	if err == nil {
		_, err = r.settle(ctx, c) // the catalog has to be known
	}
	if err != nil {
		return call.Result{}, "", err
	}
	j, name, err := r.depart(ctx, c, ref, n)
	if err != nil {
		return call.Result{}, name, err
	}
	j.to = drafted{j.to}
	res, err := j.run(ctx, ref.With(j.target.Native))
	switch {
	case err != nil && j.without(ctx, err):
		return call.Result{}, name, notFound(c, j.view, ref)
	case err == nil || !j.leaves(err):
		return res, name, err
	}
	j.arrive()
	raw, known := j.view.Metadata(j.target, c.Client.Revision, time.Now())
	if !known {
		return call.Result{}, name, j.missing(ref, err)
	}
	return call.Result{Raw: raw}, name, nil
}

// children answers resources/list for one collection (SEP-2093): the upstream does
// if it has answered resources/metadata, else the catalog, by the hierarchy of
// URIs. fault is what is wrong with the params, or nil.
func (r *Router) children(ctx context.Context, c *call.Call, ref namespace.Ref, fault error, n *noted) (call.Result, string, error) {
	if fault != nil {
		return call.Result{}, "", fault
	}
	cursor, err := cursorOf(c)
	if err == nil {
		_, err = r.settle(ctx, c)
	}
	if err != nil {
		return call.Result{}, "", err
	}
	j, name, err := r.depart(ctx, c, ref, n)
	uri, view, described := ref.Name, view(r.Routes(), c), false
	switch {
	case j != nil:
		j.to = lister{drafted{j.to}}
		var res call.Result
		res, err = j.run(ctx, ref.With(j.target.Native))
		missing := err != nil && j.without(ctx, err) || err == nil && isEmptyList(res.Raw, "resources") && j.isMissing(ctx)
		if !missing && (err == nil || !j.leaves(err)) {
			return res, name, err
		}
		j.arrive()
		uri, view = j.space.PublicURI(j.target.Native), j.view
		described = !missing && j.view.Describe(j.target) != nil
		if missing {
			err = notFound(c, j.view, ref)
		} else {
			err = j.missing(ref, err)
		}
	case name != "" || !isUnknown(err): // refused, or perhaps not known yet
		return call.Result{}, name, err
	}
	page, known, fault2 := view.Children(uri, c.Client.Revision, cursor, time.Now())
	switch {
	case fault2 != nil:
		return call.Result{}, name, fault2
	case !known && !described:
		return call.Result{}, name, err
	}
	return call.Result{Raw: page}, name, nil
}

// arrive looks at the table once more where the upstream was down when the call
// began: by now it has answered, and what it lists may be known.
func (j *journey) arrive() {
	if j.target.Part.Down() == nil {
		return
	}
	now := view(j.r.Routes(), j.c)
	if target, ok := now.Resolve(call.Resource, j.target.Public); ok && target.Part.Upstream() == j.space.Upstream() {
		j.view, j.target = now, target
	}
}

// isUnknown reports whether err is the answer to a name that the caller's view
// does not have.
func isUnknown(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	return ok && rpc.Raw == nil && (rpc.Code == wire.CodeInvalidParams || rpc.Code == wire.CodeResourceNotFound)
}

// leaves reports whether an upstream that answered with err leaves the answer to
// the catalog: it knows nothing of the draft. Servers say so in several ways; those
// made with the Python SDK in that of a legacy revision in which nothing is missing
// with that code. A resource that the upstream says is missing is missing.
func (j *journey) leaves(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	switch {
	case !ok:
		return false
	case rpc.Code == wire.CodeMethodNotFound:
		return true
	case rpc.Raw == nil || rpc.Code == wire.CodeResourceNotFound:
		return false
	case rpc.Code == wire.CodeInvalidParams:
		return j.target.Part.Revision().Era() == wire.EraLegacy
	default:
		return j.target.Entry != nil
	}
}

// missing is the answer where neither the upstream nor the catalog knows a
// resource; err is what the upstream said.
func (j *journey) missing(ref namespace.Ref, err error) error {
	if rpc, ok := errors.AsType[*wire.Error](err); ok && rpc.Code != wire.CodeMethodNotFound && rpc.Code != wire.CodeInvalidParams {
		return err
	}
	return notFound(j.c, j.view, ref)
}

// drafted is an upstream whose answers to resources/metadata are such: some servers
// answer what they do not know with an empty result.
type drafted struct{ Upstream }

func (d drafted) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	res, err := d.Upstream.Do(ctx, c)
	if err == nil && c.Method == wire.MethodResourcesMetadata && wire.ValueOf(res.Raw).Get("resource").Kind() != '{' {
		return call.Result{}, wire.Errorf(wire.CodeMethodNotFound, "method not found: %q", c.Method)
	}
	return res, err
}

// lister is an upstream that is asked for the children of a collection. The
// connector lets that through once the upstream has answered resources/metadata,
// so where it does not, that is asked first.
type lister struct{ Upstream }

func (l lister) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	res, err := l.Upstream.Do(ctx, c)
	if rpc, ok := errors.AsType[*wire.Error](err); !ok || rpc.Code != wire.CodeMethodNotFound || c.Method != wire.MethodResourcesList {
		return res, err
	}
	first := c.With(wire.SetMember(wire.Raw(`{}`), "uri", wire.ValueOf(c.Params).Get("uri").Raw()))
	first.Method = wire.MethodResourcesMetadata
	if _, err := l.Upstream.Do(ctx, first); err != nil {
		return call.Result{}, err
	}
	return l.Upstream.Do(ctx, c)
}

// adopt returns the children that an upstream lists as the table would list them.
func (j *journey) adopt(raw wire.Raw) wire.Raw {
	name := j.space.Upstream()
	return j.view.Adopt(j.target.Part, raw, func(a catalog.Adopted) {
		j.r.nonconforming(name, j.c.Method, a.Native, a.Findings, a.More)
		j.r.metrics.tookOut(name, a.Removed)
	})
}

// enrich adds to a result, under public names, what the draft has in it beyond
// what the upstream sent, and takes out of one the contents that the caller may
// not read.
func (j *journey) enrich(raw wire.Raw) wire.Raw {
	if j.c.Method == wire.MethodResourcesRead {
		j.arrive()
		return j.view.Enrich(j.target, j.view.Reads(j.target, raw))
	}
	if j.view.Enriches() {
		raw = enrich.Annotations(j.c.Method, raw)
	}
	return raw
}

// enrichTask does for the result of a tool that a task ran what enrich does for
// that of a call, if the message has it.
func (r *Router) enrichTask(method string, raw wire.Raw) wire.Raw {
	if !r.Routes().Table.Enriches() {
		return raw
	}
	if wire.MethodOf(method).Shape != wire.ShapeTask {
		return enrich.Annotations(method, raw)
	}
	e := wire.NewEdit(raw)
	if at := e.Root().Get("result"); at.Kind() == '{' {
		if result := enrich.Annotations(wire.MethodToolsCall, at.Raw()); &result[0] != &at.Raw()[0] {
			e.Replace(at, result)
		}
	}
	return e.Bytes()
}
