package upstream

import (
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// ownCapabilities is what the gateway declares for itself: every kind of ask,
// since it knows only when an ask comes whose client can answer it. What that
// client did not declare is answered for it, see [asks]. Roots are declared by
// sessions that have configured ones: a server may take the one answer as its
// sandbox for everybody. The context of sampling is never declared: it would
// show one server what another said.
func ownCapabilities(roots bool) wire.Raw {
	caps := wire.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`)
	if roots {
		caps = wire.SetMember(caps, "roots", wire.Raw(`{}`))
	}
	return caps
}

// callCapabilities is what a modern request for a client declares: what the
// client declared, without the context of sampling.
func callCapabilities(c *call.Client) wire.Raw {
	if wire.ValueOf(c.Capabilities).Kind() != '{' {
		return wire.Raw(`{}`)
	}
	e := wire.NewEdit(c.Capabilities)
	if sampling := e.Root().Get("sampling"); sampling.Get("context").Exists() {
		e.Remove(sampling, "context")
	}
	return e.Bytes()
}

// canElicit reports whether the client declared the mode of elicitation. One
// that names no mode means forms (2025-11-25, client/elicitation).
func canElicit(c *call.Client, mode string) bool {
	if !c.Can("elicitation") {
		return false
	}
	named := slices.ContainsFunc([]string{"form", "url"}, func(m string) bool { return c.Can("elicitation", m) })
	return c.Can("elicitation", mode) || (!named && mode == "form")
}

// declares reports whether a server's capabilities hold the one at this path as
// an object or as true.
func declares(capabilities wire.Raw, path ...string) bool {
	v := wire.ValueOf(capabilities).Get(path...)
	return v.Kind() == '{' || v.Bool()
}
