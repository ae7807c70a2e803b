package protocol

import (
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// InitializeCall returns the request that opens a legacy session. It proposes the newest
// legacy revision.
func (s *Identity) InitializeCall() *call.Call {
	params := wire.SetMember(wire.Raw(`{}`), "protocolVersion", wire.String(string(wire.LatestLegacy)))
	params = wire.SetMember(params, "capabilities", s.capabilities)
	params = wire.SetMember(params, "clientInfo", s.info)
	return &call.Call{Method: wire.MethodInitialize, Params: s.withVia(params), Back: NoClient{}}
}

// ReadInitialize reads the result of initialize. The error is for an operator.
func ReadInitialize(result wire.Raw) (Hello, error) {
	root := wire.ValueOf(result)
	version, ok := root.Get("protocolVersion").Text()
	if !ok {
		return Hello{}, fmt.Errorf("the result of initialize has no string protocolVersion")
	}
	if wire.Revision(version).Era() != wire.EraLegacy {
		return Hello{}, fmt.Errorf("the server answered initialize with revision %.40q; the gateway speaks %v",
			version, wire.LegacyRevisions())
	}
	h := readHello(root)
	h.Revision = wire.Revision(version)
	h.Info = object(root.Get("serverInfo"))
	return h, nil
}

// readHello reads the members that the results of initialize and server/discover have in
// common.
func readHello(root wire.Value) Hello {
	h := Hello{Capabilities: object(root.Get("capabilities")), Instructions: root.Get("instructions").Str(), Via: ViaIn(root.Raw())}
	if h.Capabilities == nil {
		h.Capabilities = wire.Raw(`{}`)
	}
	return h
}
