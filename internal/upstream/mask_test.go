package upstream

import (
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/wire"
)

// What a server says of why it cannot be talked to, or not asked for a list, reaches
// clients with what is secret masked.
func TestReasonsAreMasked(t *testing.T) {
	for name, tc := range map[string]struct {
		refuses string
		state   State
	}{
		"down":     {wire.MethodInitialize, Down},
		"degraded": {wire.MethodToolsList, Degraded},
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
				r := start(t, Options{Pipe: s.pipe, Era: wire.EraLegacy, Mask: func(text string) string {
					return strings.ReplaceAll(text, "hunter-22", "[redacted]")
				}})
				snap := r.watch.wait(t, func(s Snapshot) bool { return s.State == tc.state })
				for what, text := range map[string]string{"reason": snap.Reason, "advice": snap.Advice} {
					if strings.Contains(text, "hunter") || what == "reason" && !strings.Contains(text, "bad key [redacted]") {
						t.Errorf("%s: %s", what, text)
					}
				}
				if tc.state == Down {
					got := outcomeOf(r.Do(t.Context(), toolCall("echo", "ann", &peer{})))
					if strings.Contains(got, "hunter") || !strings.Contains(got, "bad key [redacted]") {
						t.Errorf("the call: %s", got)
					}
				}
			})
		})
	}
}
