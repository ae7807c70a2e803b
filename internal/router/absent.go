package router

import (
	"context"
	"errors"
	"strings"

	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// A resource that no list has may be one that its upstream does not have either.
// What servers say then differs from one to the next; a resource that policy
// refuses must look the same. So whoever may be refused a resource of an upstream
// gets the gateway's own answer for all that is missing there.

// veiled reports whether the target has to look like what policy refuses where it
// turns out to be missing.
func (j *journey) veiled() bool {
	return j.target.Entry == nil && j.view.Restricts(j.target.Kind, j.target.Part)
}

// hides reports whether err is an upstream's way to say that the target is missing,
// and not to be shown.
func (j *journey) hides(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	return ok && rpc.Raw != nil && saysMissing(rpc) && j.veiled()
}

// veil returns the answer for what is missing in the place of what an upstream
// says of it.
func (j *journey) veil(err error) error {
	if j.hides(err) {
		return notFound(j.c, j.view, j.ref)
	}
	return err
}

// isMissing reports whether the upstream is known not to have a veiled target. Most
// servers take a subscription to anything, and the catalog knows of what matches a
// template only how it would look. So the upstream is asked, by a read that nobody
// gets to see. Where the caller's user would have to consent to a read, it is not made.
func (j *journey) isMissing(ctx context.Context) bool {
	if !j.veiled() {
		return false
	}
	probe := j.c.With(wire.SetMember(wire.Raw(`{}`), "uri", wire.String(j.target.Native)))
	probe.Method, probe.Back, probe.LogLevel = wire.MethodResourcesRead, unheard{}, wire.LevelNone
	if j.target.Judgement.Decide(policy.Request{Method: probe.Method}).Effect != policy.Allow {
		return false
	}
	var err error
	if probe.Session, err = j.to.Session(ctx, j.c); err != nil {
		return false
	}
	res, err := j.to.Do(ctx, probe)
	return j.hides(err) || err == nil && isEmptyList(res.Raw, "contents")
}

// without reports whether a request of the draft failed with err because the
// upstream does not have a veiled target. Many know nothing of such requests, so
// what they say of one need not be about the target.
func (j *journey) without(ctx context.Context, err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	leaves := j.leaves(err)
	return j.hides(err) && !leaves || (leaves || ok && rpc.Raw != nil) && j.isMissing(ctx)
}

// saysMissing reports whether an error of an upstream means that it does not have a
// resource. Some servers use the code for that, of which there were two; others have
// one code for everything and say it in words.
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
