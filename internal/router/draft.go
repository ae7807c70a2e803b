package router

import (
	"context"
	"errors"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// metadata answers resources/metadata (SEP-2093). The upstream answers if it knows the
// method, else the catalog.
func (r *Router) metadata(ctx context.Context, c *call.Call) (call.Result, logFields, error) {
	_, _, err := namespace.ItemRefOf(c.Method, c.Params)
	if err == nil {
		_, err = r.awaitView(ctx, c) // the catalog has to be known
	}
	if err != nil {
		return call.Result{}, logFields{}, err
	}
	f := r.newForwarding(c)
	res, err := f.run(ctx, callStages)
	switch {
	case !f.authorized, err == nil:
		return res, f.log, err
	case f.lacksTarget(ctx, err):
		err = f.notFound(f.reasonOfServer(err))
		return call.Result{}, f.log, err
	case !f.leavesToCatalog(err):
		return call.Result{}, f.log, err
	}
	f.refreshTarget()
	raw, known := f.view.Metadata(f.target, c.Client.Revision, time.Now())
	if !known {
		err = f.unknownResource(err)
		return call.Result{}, f.log, err
	}
	return call.Result{Raw: raw}, f.log, nil
}

// children answers resources/list for one collection (SEP-2093). The upstream answers if
// it has answered resources/metadata, else the catalog, by the hierarchy of URIs.
func (r *Router) children(ctx context.Context, c *call.Call, ref namespace.ItemRef) (call.Result, logFields, error) {
	cursor, err := cursorOf(c)
	if err == nil {
		_, err = r.awaitView(ctx, c)
	}
	if err != nil {
		return call.Result{}, logFields{}, err
	}
	f := r.newForwarding(c)
	res, err := f.run(ctx, callStages)
	uri, described := ref.Name, false
	switch {
	case f.authorized:
		missing := err != nil && f.lacksTarget(ctx, err) || err == nil && isEmptyList(res.Raw, "resources") && f.isMissing(ctx)
		if !missing && (err == nil || !f.leavesToCatalog(err)) {
			return res, f.log, err
		}
		f.refreshTarget()
		uri = f.space().PublicURI(f.target.Native)
		described = !missing && f.view.Describe(f.target) != nil
		if missing {
			err = f.notFound("the server has no such resource")
		} else {
			err = f.unknownResource(err)
		}
	case f.log.upstream != "" || !isUnknown(err): // refused, or perhaps not known yet
		return call.Result{}, f.log, err
	}
	// A collection that no upstream lists may have children that are listed.
	page, known, refusal := f.view.Children(uri, c.Client.Revision, cursor, time.Now())
	switch {
	case refusal != nil:
		return call.Result{}, f.log, refusal
	case !known && !described:
		return call.Result{}, f.log, err
	}
	return call.Result{Raw: page}, f.log, nil
}

// lacksTarget reports whether a request of the draft failed with err because the upstream
// does not have a target that must be masked. Many servers do not know such requests, so
// that their error need not be about the target.
func (f *forwarding) lacksTarget(ctx context.Context, err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	leaves := f.leavesToCatalog(err)
	return f.masks(err) && !leaves || (leaves || ok && rpc.Raw != nil) && f.isMissing(ctx)
}

// isUnknown reports whether err is the answer to a name that the caller's view
// does not have.
func isUnknown(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	return ok && rpc.Raw == nil && (rpc.Code == wire.CodeInvalidParams || rpc.Code == wire.CodeResourceNotFound)
}

// leavesToCatalog reports whether an upstream that answered with err leaves the answer to
// the catalog, because it does not know the draft. Servers say so in several ways. Those
// made with the Python SDK use the code for invalid params, with which no legacy revision
// says that a resource is missing. A resource that the upstream calls missing is missing.
func (f *forwarding) leavesToCatalog(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	switch {
	case !ok:
		return false
	case rpc.Code == wire.CodeMethodNotFound:
		return true
	case rpc.Raw == nil || rpc.Code == wire.CodeResourceNotFound:
		return false
	case rpc.Code == wire.CodeInvalidParams:
		return f.target.Part.Revision().Era() == wire.EraLegacy
	default:
		return f.target.Entry != nil
	}
}

// unknownResource is the answer if neither the upstream nor the catalog knows a
// resource; err is the answer of the upstream.
func (f *forwarding) unknownResource(err error) error {
	if rpc, ok := errors.AsType[*wire.Error](err); ok && rpc.Code != wire.CodeMethodNotFound && rpc.Code != wire.CodeInvalidParams {
		return err
	}
	return f.notFound("neither the server nor a list has such a resource")
}

// metadataUpstream is an upstream whose answers to resources/metadata describe a
// resource: some servers answer a method that they do not know with an empty result.
type metadataUpstream struct{ Upstream }

func (d metadataUpstream) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	res, err := d.Upstream.Do(ctx, c)
	if err == nil && c.Method == wire.MethodResourcesMetadata && wire.ValueOf(res.Raw).Get("resource").Kind() != '{' {
		return call.Result{}, wire.Errorf(wire.CodeMethodNotFound, "method not found: %q", c.Method)
	}
	return res, err
}

// childrenUpstream is an upstream that is asked for the children of a collection. The
// connector lets that request through once the upstream has answered resources/metadata,
// so that is sent first if it does not.
type childrenUpstream struct{ Upstream }

func (l childrenUpstream) Do(ctx context.Context, c *call.Call) (call.Result, error) {
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
func (f *forwarding) adopt(raw wire.Raw) wire.Raw {
	name := f.upstreamName()
	return f.view.Adopt(f.target.Part, raw, func(a catalog.Adopted) {
		f.nonconforming(name, f.call.Method, a.Native, a.Findings, a.More)
		f.router.metrics.countSanitized(name, a.Removed)
	})
}
