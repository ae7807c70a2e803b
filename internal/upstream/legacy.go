package upstream

import (
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// initializeCall is the request that opens a legacy session. It proposes the
// newest legacy revision.
func (s *self) initializeCall() *call.Call {
	params := wire.SetMember(wire.Raw(`{}`), "protocolVersion", wire.String(string(wire.LatestLegacy)))
	params = wire.SetMember(params, "capabilities", s.capabilities)
	params = wire.SetMember(params, "clientInfo", s.info)
	return &call.Call{Method: wire.MethodInitialize, Params: s.tellVia(params), Back: nobody{}}
}

// readInitialize reads the result of initialize. The error is for an operator.
func readInitialize(result wire.Raw) (hello, error) {
	root := wire.ValueOf(result)
	version, ok := root.Get("protocolVersion").Text()
	if !ok {
		return hello{}, fmt.Errorf("the result of initialize has no string protocolVersion")
	}
	if wire.Revision(version).Era() != wire.EraLegacy {
		return hello{}, fmt.Errorf("the server answered initialize with revision %.40q; the gateway speaks %v",
			version, wire.LegacyRevisions())
	}
	h := readHello(root)
	h.revision = wire.Revision(version)
	h.info = object(root.Get("serverInfo"))
	return h, nil
}

// readHello reads what the results of initialize and server/discover have in
// common.
func readHello(root wire.Value) hello {
	h := hello{capabilities: object(root.Get("capabilities")), instructions: root.Get("instructions").Str(), via: ViaIn(root.Raw())}
	if h.capabilities == nil {
		h.capabilities = wire.Raw(`{}`)
	}
	return h
}
