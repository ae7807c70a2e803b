package gateway

import (
	"sync"
	"testing"

	"mcpgateway/internal/config"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// A replica that ends in order ends its sessions at servers itself, also that of a call that runs until then, and leaves none in the store for the others.
func TestOrderlyEndLeavesNoSessions(t *testing.T) {
	kept := new(storetest.Memory)
	s, a, b := countingReplicasOn(t, config.SessionPerClient, kept, kept)
	session := a.session("ann")
	b.session("ann") // waits until b is ready
	a.callTool(session, "count")
	var call sync.WaitGroup
	call.Go(func() { a.callTool(session, "stay") })
	<-s.staying
	a.g.generation.Load().cfg.DrainTimeout = 1 // the call runs for longer
	a.stop()
	call.Wait()
	fields, err := kept.Fields(t.Context(), store.Key{Kind: "open-sessions", Name: a.g.replica})
	if err != nil || len(fields) != 0 {
		t.Errorf("%d sessions are left in the store, %v", len(fields), err)
	}
}
