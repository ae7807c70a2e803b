package upstream

import (
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// What a server says of why it cannot be talked to, or not asked for a list, reaches
// clients with what is secret masked.
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
				s := &fakeServer{handle: func(l *fakeLife, m wire.Message) {
					if m.Method == tc.refuses {
						l.refuse(m, wire.CodeInternal, "bad key hunter-22")
						return
					}
					legacy(nil)(l, m)
				}}
				r := start(t, Options{Server: Server{Pipe: s.pipe, Era: wire.EraLegacy}, Mask: func(text string) string {
					return strings.ReplaceAll(text, "hunter-22", "[redacted]")
				}})
				snap := r.watch.wait(t, func(s connector.Snapshot) bool { return s.State == tc.state })
				for what, text := range map[string]string{"reason": snap.Reason, "advice": snap.Advice} {
					if strings.Contains(text, "hunter") || what == "reason" && !strings.Contains(text, "bad key [redacted]") {
						t.Errorf("%s: %s", what, text)
					}
				}
				if tc.state == connector.Down {
					got := outcomeOf(r.Do(t.Context(), toolCall("echo", "ann", &peer{})))
					if strings.Contains(got, "hunter") || !strings.Contains(got, "bad key [redacted]") {
						t.Errorf("the call: %s", got)
					}
				}
			})
		})
	}
}
