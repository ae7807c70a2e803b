package protocol

import (
	"testing"

	"mcpgateway/internal/wire"
)

// The answers of a server to a handshake are understood or refused, and understood only with a
// revision that the gateway speaks.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"},"instructions":"x"}`))
	f.Add([]byte(`{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":null,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a"}}}`))
	f.Add([]byte(`{"code":-32022,"message":"m","data":{"supported":["2026-07-28",1]}}`))
	f.Add([]byte(`{"protocolVersion":["2025-06-18"],"supportedVersions":{}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if wire.Check(answer, wire.Limits{Depth: 100}, wire.Lenient) != nil {
			return
		}
		if h, err := ReadInitialize(answer); err == nil && h.Revision.Era() != wire.EraLegacy {
			t.Errorf("%s: initialize negotiates %q", answer, h.Revision)
		}
		v := wire.ValueOf(answer)
		code, _ := v.Get("code").Int()
		for _, m := range []wire.Message{{Result: answer}, {Error: &wire.Error{Code: code, Message: v.Get("message").Str(), Data: v.Get("data").Raw()}}} {
			h, legacy, err := JudgeDiscover(m)
			if err == nil && !legacy && h.Revision.Era() != wire.EraModern {
				t.Errorf("%s: server/discover yields %q without the legacy era", answer, h.Revision)
			}
		}
	})
}
