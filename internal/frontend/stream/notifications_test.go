package stream

import (
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// Notifications for a client that does not read are bounded: parts of a resource
// become the whole.
func TestPendingUpdatesAreBounded(t *testing.T) {
	var n Notifications
	for i := range 10_000 {
		uri := fmt.Sprintf("x:folder/%d", i)
		n.Add(UpdateOf(ResourceUpdate{"x:folder", uri, wire.Raw(`{"uri":"` + uri + `","x":"` + strings.Repeat("x", 100) + `"}`)}))
	}
	n.Add(UpdateOf(ResourceUpdate{"x:folder", "x:folder/large", wire.Raw(`{"x":"` + strings.Repeat("x", 2*maxPendingUpdates) + `"}`)}))
	if n.size > maxPendingUpdates+100 {
		t.Errorf("%d bytes wait, of at most %d", n.size, maxPendingUpdates)
	}
	if got := string(n.updated["x:folder"].Params); got != `{"uri":"x:folder"}` {
		t.Errorf("the update of the whole is %s", got)
	}
	size := 0
	for _, u := range n.updated {
		size += u.size()
	}
	if size != n.size {
		t.Errorf("%d bytes are counted as %d", size, n.size)
	}
}
