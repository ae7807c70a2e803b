package upstream

import (
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// The error messages of a server reach clients with secrets masked, for a failed
// handshake and for a failed list.
func TestReasonsAreMasked(t *testing.T) {
	for name, tc := range map[string]struct {
		refuses string
		state   connector.State
	}{
		"down":     {wire.MethodInitialize, connector.Down},
		"degraded": {wire.MethodToolsList, connector.Degraded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method == tc.refuses {
						l.Refuse(m, wire.CodeInternal, "bad key hunter-22")
						return
					}
					upstreamtest.Legacy(nil)(l, m)
				}}
				r := start(t, Options{Server: Server{Pipe: s.Pipe, Era: wire.EraLegacy}, Mask: func(text string) string {
					return strings.ReplaceAll(text, "hunter-22", "[redacted]")
				}})
				snap := r.watch.wait(t, func(s connector.Snapshot) bool { return s.State == tc.state })
				for what, text := range map[string]string{"reason": snap.Reason, "advice": snap.Advice} {
					if strings.Contains(text, "hunter") || what == "reason" && !strings.Contains(text, "bad key [redacted]") {
						t.Errorf("%s: %s", what, text)
					}
				}
				if tc.state == connector.Down {
					got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{})))
					if strings.Contains(got, "hunter") || !strings.Contains(got, "bad key [redacted]") {
						t.Errorf("the call: %s", got)
					}
				}
			})
		})
	}
}
