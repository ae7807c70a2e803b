package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
)

// Clients are notified again of what they were last notified of, once for several notes, and not long after.
func TestRelister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []catalog.Changes
		r := &relister{notify: func(c listsChanged) { got = append(got, c(nil, nil)) }}
		defer r.stop()
		announce := func(c catalog.Changes) {
			r.announced(func(*call.Principal, *call.Client) catalog.Changes { return c })
		}
		expect := func(when string, want ...catalog.Changes) {
			t.Helper()
			time.Sleep(relistDelay)
			synctest.Wait()
			if len(got) != len(want) || len(want) > 0 && got[len(got)-1] != want[len(want)-1] {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
			got = nil
		}
		r.heard()
		expect("nothing was announced")
		tools, prompts := catalog.Changes{Tools: true}, catalog.Changes{Prompts: true}
		announce(tools)
		r.heard()
		r.heard()
		announce(prompts)
		expect("two notes", prompts)
		time.Sleep(relistWithin / 2)
		r.heard()
		expect("a late note", prompts)
		time.Sleep(relistWithin)
		r.heard()
		expect("a note that comes too late")
	})
}
