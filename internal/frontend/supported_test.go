package frontend

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// A profile that no longer serves an era ends what its clients have open in that profile.
func TestSessionsEndWithTheirEra(t *testing.T) {
	p := newProfileTest(t)
	coding, ops := p.open("ann", "coding"), p.open("ann", "ops")
	p.s.Set(Settings{Eras: map[string]wire.Era{"coding": wire.EraModern, "ops": wire.EraLegacy}})
	if p.s.sessions.Find(coding) != nil {
		t.Error("the session of an era that is not served is still there")
	}
	if p.s.sessions.Find(ops) == nil {
		t.Error("a session of another profile ended")
	}
	p.s.Set(Settings{})
	if status, _, answer := p.in("POST", "ann", "ops", ops, pingBody); status != 200 {
		t.Errorf("the other session: %d %s", status, answer)
	}
	p.open("ann", "coding")
}

// On stdio the eras of a profile hold too.
func TestErasOnStdio(t *testing.T) {
	const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`
	const discover = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for era, want := range map[wire.Era][2]string{
		wire.EraModern: {`"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-06-18"`, `"supportedVersions":["2026-07-28"]`},
		wire.EraLegacy: {`"protocolVersion":"2025-06-18"`, `"code":-32022`},
	} {
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Settings: Settings{Eras: map[string]wire.Era{"only": era}}})
		in, send := io.Pipe()
		answers, out := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.ServeStdio(t.Context(), call.Local.In("only"), in, out, time.Minute) }()
		lines := bufio.NewReader(answers)
		for i, message := range []string{initialize, discover} {
			if _, err := io.WriteString(send, message+"\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, want[i]) {
				t.Errorf("%s: %s, %v; want %s", era, line, err, want[i])
			}
		}
		send.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
