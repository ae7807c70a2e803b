package protocol

import (
	"maps"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// GatewayCapabilities returns the capabilities that the gateway declares in a shared
// session. They are all kinds of requests, since the client of a request is known only
// when the request comes; [ServerRequests] answers for clients without the capability.
// roots says whether the session has configured roots: a server may take the one answer
// as its sandbox for all clients. The context of sampling is never declared: it would
// show one server what another said.
func GatewayCapabilities(roots bool) wire.Raw {
	caps := wire.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`)
	if roots {
		caps = wire.SetMember(caps, "roots", wire.Raw(`{}`))
	}
	return caps
}

// CallCapabilities returns the capabilities that a modern request for a client declares:
// those of the client, without the context of sampling and without extensions that the
// gateway does not relay.
func CallCapabilities(c *call.Client) wire.Raw {
	if wire.ValueOf(c.Capabilities).Kind() != '{' {
		return wire.Raw(`{}`)
	}
	var sampling, extensions wire.Value
	for m := range wire.ValueOf(c.Capabilities).Members() {
		switch {
		case m.Is("sampling"):
			sampling = m.Value
		case m.Is("extensions"):
			extensions = m.Value
		}
	}
	if !sampling.Exists() && !extensions.Exists() {
		return c.Capabilities
	}
	e := wire.NewEdit(c.Capabilities)
	if sampling.Get("context").Exists() {
		e.Remove(sampling, "context")
	}
	if len(UnrelayedExtensions(extensions)) > 0 {
		kept := wire.Raw(`{}`)
		for m := range extensions.Members() {
			if name := m.Key.Str(); wire.RelaysExtension(name) {
				kept = wire.SetMember(kept, name, m.Value.Raw())
			}
		}
		e.Replace(extensions, kept)
	}
	return e.Bytes()
}

// UnrelayedExtensions returns the names of the declared extensions that the gateway does
// not relay.
func UnrelayedExtensions(extensions wire.Value) []string {
	var names []string
	for m := range extensions.Members() {
		if name := m.Key.Str(); !wire.RelaysExtension(name) {
			names = append(names, name)
		}
	}
	return names
}

// canElicit reports whether the client declared the mode of elicitation. A declaration
// without a mode means forms (2025-11-25, client/elicitation).
func canElicit(c *call.Client, mode string) bool {
	if !c.Can("elicitation") {
		return false
	}
	named := slices.ContainsFunc([]string{"form", "url"}, func(m string) bool { return c.Can("elicitation", m) })
	return c.Can("elicitation", mode) || (!named && mode == "form")
}

// Declares reports whether the capability at this path is an object or true.
func Declares(capabilities wire.Raw, path ...string) bool {
	v := wire.ValueOf(capabilities).Get(path...)
	return v.Kind() == '{' || v.Bool()
}

// RelayedCapabilities returns the capabilities that a legacy session of one client
// declares: those of [CallCapabilities] without tasks of clients, which the gateway does
// not relay, and without the tasks extension, which legacy revisions do not have.
func RelayedCapabilities(c *call.Client) wire.Raw {
	e := wire.NewEdit(CallCapabilities(c))
	e.Remove(e.Root(), "tasks")
	if extensions := e.Root().Get("extensions"); extensions.Get(wire.ExtensionTasks).Exists() {
		e.Remove(extensions, wire.ExtensionTasks)
	}
	return e.Bytes()
}

// maxExtensions bounds the extensions of a client that a server gets, in bytes.
const maxExtensions = 16 << 10

// SharedCapabilities returns the capabilities that a session declares which all clients
// with the same capabilities share. The text is the same for all of them.
func SharedCapabilities(c *call.Client, roots bool) wire.Raw {
	out := wire.Raw(`{}`)
	set := func(member string, parts ...string) {
		v := wire.Raw(`{}`)
		for _, p := range parts {
			v = wire.SetMember(v, p, wire.Raw(`{}`))
		}
		out = wire.SetMember(out, member, v)
	}
	if modes := elicitModes(c); len(modes) > 0 {
		set("elicitation", modes...)
	}
	switch {
	case c.Can("sampling", "tools"):
		set("sampling", "tools")
	case c.Can("sampling"):
		set("sampling")
	}
	if extensions := ExtensionsOf(c); extensions != nil {
		out = wire.SetMember(out, "extensions", extensions)
	}
	if roots {
		set("roots")
	}
	return out
}

func elicitModes(c *call.Client) []string {
	var modes []string
	for _, mode := range []string{"form", "url"} {
		if canElicit(c, mode) {
			modes = append(modes, mode)
		}
	}
	return modes
}

// ExtensionsOf returns the declared extensions of a client that the gateway relays in
// legacy sessions, sorted by name, nil for none.
func ExtensionsOf(c *call.Client) wire.Raw {
	declared := wire.ValueOf(c.Capabilities).Get("extensions")
	if declared.Kind() != '{' || len(declared.Raw()) > maxExtensions {
		return nil
	}
	byName := make(map[string]wire.Raw)
	for m := range declared.Members() {
		if name := m.Key.Str(); name != wire.ExtensionTasks && wire.RelaysExtension(name) {
			byName[name] = m.Value.Raw()
		}
	}
	if len(byName) == 0 {
		return nil
	}
	out := wire.Raw(`{}`)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = wire.SetMember(out, name, byName[name])
	}
	return out
}
