package wire

import (
	"slices"
	"testing"
)

// 2026-07-28, basic/transports/streamable-http, "Standard Request Headers".
func TestMethodHeader(t *testing.T) {
	for _, tc := range []struct {
		method, member string
		required       bool
	}{
		{"tools/call", "name", true},
		{"prompts/get", "name", true},
		{"resources/read", "uri", true},
		{"resources/metadata", "uri", false},
		{"tasks/get", "taskId", true},
		{"tasks/update", "taskId", true},
		{"tasks/cancel", "taskId", true},
		{"tools/list", "", false},
		{"resources/list", "", false},
		{"resources/subscribe", "", false},
		{"completion/complete", "", false},
		{"", "", false},
	} {
		if got, required := MethodOf(tc.method).Header(); got != tc.member || required != tc.required {
			t.Errorf("%s: member %q, required %v; want %q, %v", tc.method, got, required, tc.member, tc.required)
		}
	}
}

func TestMethodKnownTo(t *testing.T) {
	always := []Revision{Rev20241105, Rev20250326, Rev20250618, Rev20251125, Rev20260728, "2027-01-01"}
	for method, want := range map[string][]Revision{
		NoteProgress:              always,
		NoteMessage:               always,
		NoteResourceUpdated:       always,
		NoteElicitComplete:        {Rev20251125},
		NoteTaskStatus:            {Rev20251125},
		NoteTasks:                 {Rev20260728, "2027-01-01"},
		NoteAcknowledged:          {Rev20260728, "2027-01-01"},
		MethodTasksGet:            {Rev20251125, Rev20260728, "2027-01-01"},
		MethodTasksResult:         {Rev20251125},
		MethodTasksUpdate:         {Rev20260728, "2027-01-01"},
		MethodInitialize:          always[:4],
		MethodDiscover:            {Rev20260728, "2027-01-01"},
		"notifications/holograms": always,
	} {
		for _, rev := range always {
			if got := MethodOf(method).KnownTo(rev); got != slices.Contains(want, rev) {
				t.Errorf("KnownTo(%s) of %q = %v", rev, method, got)
			}
		}
	}
}

// The zero row is what every decision about an unlisted method rests on.
func TestUnknownMethod(t *testing.T) {
	for _, name := range []string{"", "tools/destroy", "Tools/call", "tools/call "} {
		if m := MethodOf(name); *m != (Method{}) {
			t.Errorf("the row of %q is %+v", name, *m)
		}
	}
}

func TestMethodTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range methods {
		switch {
		case m.Name == "" || seen[m.Name] || MethodOf(m.Name).Name != m.Name:
			t.Errorf("%q is twice in the table, or cannot be found", m.Name)
		case m.Kind == KindUnknown:
			t.Errorf("%s has no kind", m.Name)
		case m.Item != ItemNone && m.Kind != KindList && m.Kind != KindListChanged && m.Member == "":
			t.Errorf("%s names an item in no member", m.Name)
		case m.NameHeader != HeaderNone && m.Member == "":
			t.Errorf("%s mirrors no member in Mcp-Name", m.Name)
		case m.Rounds != (m.Kind == KindCall):
			t.Errorf("%s: rounds %v", m.Name, m.Rounds)
		case (m.Kind == KindList) != (m.ListMember != ""):
			t.Errorf("%s: items of a list in %q", m.Name, m.ListMember)
		case m.Kind == KindAsk && m.Capability == "":
			t.Errorf("%s needs no capability of the client", m.Name)
		}
		seen[m.Name] = true
	}
	// Packages number the lists and their changes in this order.
	var lists, changes []Item
	for _, m := range MethodsOf(KindList) {
		lists = append(lists, m.Item)
	}
	for _, m := range MethodsOf(KindListChanged) {
		changes = append(changes, m.Item)
	}
	if !slices.Equal(lists, []Item{ItemTool, ItemPrompt, ItemResource, ItemTemplate}) || !slices.Equal(changes, []Item{ItemTool, ItemPrompt, ItemResource}) {
		t.Errorf("lists of %v, changes of %v", lists, changes)
	}
}

func TestUsedBy(t *testing.T) {
	for item, want := range map[Item]string{
		ItemNone: "", ItemTool: MethodToolsCall, ItemPrompt: MethodPromptsGet, ItemResource: MethodResourcesRead, ItemTemplate: MethodResourcesRead,
	} {
		if got := UsedBy(item); got != want {
			t.Errorf("item %d is used by %q, want %q", item, got, want)
		}
	}
}

func TestMethodOfDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = MethodOf("tools/call").Rounds }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
