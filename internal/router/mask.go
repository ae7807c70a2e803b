package router

import (
	"context"
	"errors"
	"strings"

	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Servers differ in what they say of a resource that they do not have. A resource that
// policy refuses must look the same as a missing one. A caller who may be refused a
// resource of an upstream therefore gets the gateway's own answer for every resource that
// is missing there.

// mayMask reports whether the target has to look like what policy refuses if it turns
// out to be missing: it is in no list, and the caller may be refused such a target.
func (f *forwarding) mayMask() bool {
	return f.target.Entry == nil && f.view.Restricts(f.target.Kind, f.target.Part)
}

// masks reports whether an error of an upstream says that the target is missing and must
// not be shown.
func (f *forwarding) masks(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	return ok && rpc.Raw != nil && saysMissing(rpc) && f.mayMask()
}

// maskNotFound returns the gateway's own answer for a missing target in the place of an
// error that masks reports.
func (f *forwarding) maskNotFound(err error) error {
	if f.masks(err) {
		return f.notFound(f.reasonOfServer(err))
	}
	return err
}

// reasonOfServer returns the reason for the log of a call that its server answered with an error.
func (f *forwarding) reasonOfServer(err error) string {
	return f.router.reasonOf(outcomeError, f.call, &logFields{}, err)
}

// maskMissing does so for the calls of an item. Requests of the draft look at the error
// first.
func (f *forwarding) maskMissing(e *wire.Error) *wire.Error {
	if f.usesItem() && f.masks(e) {
		return f.notFound(f.reasonOfServer(e))
	}
	return e
}

// maskEmpty answers for a read without contents, with which some servers say that a
// resource is missing.
func (f *forwarding) maskEmpty(result wire.Raw) (wire.Raw, error) {
	if f.method.Shape == wire.ShapeContents && isEmptyList(result, "contents") && f.mayMask() {
		return nil, f.notFound("the server answered without contents, as if there were no such resource")
	}
	return result, nil
}

// usesItem reports whether the request is a call of an item, or a completion for one.
func (f *forwarding) usesItem() bool {
	return f.method.Kind == wire.KindCall || f.method.Kind == wire.KindComplete
}

// isMissing reports whether the upstream is known not to have a target that mayMask
// reports. If the URI only matches a template, the catalog does not know whether the
// resource exists, so the gateway reads it and discards the result. It makes no read to which
// the caller's user would have to consent.
func (f *forwarding) isMissing(ctx context.Context) bool {
	if !f.mayMask() {
		return false
	}
	probe := f.call.With(wire.SetMember(wire.Raw(`{}`), "uri", wire.String(f.target.Native)))
	probe.Method, probe.Back, probe.LogLevel = wire.MethodResourcesRead, noBackChannel{}, wire.LevelNone
	if !f.target.Policy.Decide(policy.Request{Method: probe.Method}).AllowedOutright() {
		return false
	}
	var err error
	if probe.Session, err = f.upstream.Session(ctx, f.call); err != nil {
		return false
	}
	res, err := f.upstream.Do(ctx, probe)
	return f.masks(err) || err == nil && isEmptyList(res.Raw, "contents")
}

// saysMissing reports whether an error of an upstream means that it does not have a
// resource. Some servers use one of the two codes that revisions had for that; others
// have one code for everything and say it in words.
func saysMissing(rpc *wire.Error) bool {
	switch rpc.Code {
	case wire.CodeResourceNotFound, wire.CodeInvalidParams:
		return true
	case wire.CodeMethodNotFound, wire.CodeURLElicitation, wire.CodeMissingCapability:
		return false
	}
	text := strings.ToLower(rpc.Message)
	for _, words := range []string{"not found", "unknown resource", "no such", "not exist", "doesn't exist", "nonexistent", "enoent"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// isEmptyList reports whether a result is complete and has nothing in this list.
func isEmptyList(raw wire.Raw, member string) bool {
	list := wire.ValueOf(raw).Get(member)
	if list.Kind() != '[' || wire.ValueOf(raw).Get("nextCursor").Exists() {
		return false
	}
	for range list.Elements() {
		return false
	}
	return true
}
