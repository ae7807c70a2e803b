package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"mcpgateway/test/internal/client"

	"github.com/google/go-cmp/cmp"
)

// kind is one of the four lists.
type kind struct {
	method string
	// id is the member that identifies items; public returns its public form.
	id     string
	public func(upstream, native string) string
	// same are the members that must arrive unchanged. Others depend on the client's revision, or some client drops them.
	same []string
}

var kinds = []kind{
	{"tools/list", "name", publicName, []string{"title", "description", "inputSchema", "outputSchema", "annotations"}},
	{"resources/list", "uri", publicURI, []string{"name", "title", "description", "mimeType"}},
	{"resources/templates/list", "uriTemplate", publicURI, []string{"name", "title", "description", "mimeType"}},
	{"prompts/list", "name", publicName, []string{"title", "description", "arguments"}},
}

func listSteps() []client.Step {
	var steps []client.Step
	for _, k := range kinds {
		steps = append(steps, client.Step{Method: k.method})
	}
	return steps
}

// inventory is the content of a server's lists by native names, one map for each kind.
type inventory []map[string]map[string]any

// take lists a server's items without the gateway. The inventory of a missing list is empty.
func take(t *testing.T, u upstream) inventory {
	t.Helper()
	var all inventory
	for i, outcome := range u.asker.Run(t, u.target, listSteps()).Steps {
		items := make(map[string]map[string]any)
		if outcome.Error == nil {
			for _, item := range client.Decode[client.List](t, outcome).Items {
				items[item[kinds[i].id].(string)] = item
			}
		}
		all = append(all, items)
	}
	if len(all[0]) == 0 {
		t.Fatalf("%s lists no tools, so there is nothing to compare", u.name)
	}
	return all
}

// checkLists checks that a client's lists through the gateway contain exactly the servers' items under public names.
func checkLists(t *testing.T, c client.Client, servers []upstream, inventories map[string]inventory, outcomes []client.Outcome) {
	for i, k := range kinds {
		t.Run(k.method, func(t *testing.T) {
			native := make(map[string]map[string]map[string]any)
			for _, u := range servers {
				native[u.name] = inventories[u.name][i]
			}
			for _, wrong := range k.compare(c.Era(), servers, native, client.Decode[client.List](t, outcomes[i]).Items) {
				t.Error(wrong)
			}
		})
	}
}

// compare returns the differences of a list through the gateway from the servers' own lists.
func (k kind) compare(era string, servers []upstream, native map[string]map[string]map[string]any, items []map[string]any) []string {
	var wrong []string
	listed := make(map[string]map[string]any)
	for _, item := range items {
		id, _ := item[k.id].(string)
		if _, twice := listed[id]; twice {
			wrong = append(wrong, fmt.Sprintf("%q is listed twice", id))
		}
		listed[id] = item
	}
	for _, u := range servers {
		for _, name := range slices.Sorted(maps.Keys(native[u.name])) {
			public := k.public(u.name, name)
			got, ok := listed[public]
			if !ok {
				wrong = append(wrong, fmt.Sprintf("%q is not listed", public))
				continue
			}
			delete(listed, public)
			want := native[u.name][name]
			for _, member := range k.same {
				if member == "outputSchema" && era == client.Legacy && !isObjectSchema(want[member]) {
					continue // legacy clients support object schemas only
				}
				if diff := cmp.Diff(plain(want[member]), plain(got[member])); diff != "" {
					wrong = append(wrong, fmt.Sprintf("%q: %s differs (-server +gateway):\n%s", public, member, diff))
				}
			}
		}
		if u.conditional && k.method == "tools/list" {
			maps.DeleteFunc(listed, func(id string, _ map[string]any) bool { return strings.HasPrefix(id, k.public(u.name, "")) })
		}
	}
	for _, id := range slices.Sorted(maps.Keys(listed)) {
		wrong = append(wrong, fmt.Sprintf("%q is listed, but no server has it", id))
	}
	return wrong
}

func isObjectSchema(schema any) bool {
	members, ok := schema.(map[string]any)
	return ok && members["type"] == "object"
}

// plain normalizes a value: members with empty or false values, which some clients omit, are removed.
func plain(value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := make(map[string]any)
		for name, member := range value {
			if member := plain(member); member != nil {
				kept[name] = member
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case []any:
		if len(value) == 0 {
			return nil
		}
		kept := make([]any, len(value))
		for i, member := range value {
			kept[i] = plain(member)
		}
		return kept
	case bool:
		if !value {
			return nil
		}
	case string:
		if value == "" {
			return nil
		}
	}
	return value
}

// compact encodes a result without spaces, so that a test can search its parts.
func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCompareLists(t *testing.T) {
	servers := []upstream{{name: "a"}, {name: "b", conditional: true}}
	schema := map[string]any{"type": "object", "required": []any{"x"}}
	native := map[string]map[string]map[string]any{
		"a": {"get": {"name": "get", "inputSchema": schema, "annotations": map[string]any{"readOnlyHint": false}, "outputSchema": map[string]any{"type": "array"}}},
		"b": {"get": {"name": "get"}},
	}
	good := func() []map[string]any {
		return []map[string]any{{"name": "a__get", "inputSchema": schema}, {"name": "b__get"}, {"name": "b__ask"}}
	}
	for _, test := range []struct {
		name  string
		era   string
		items func() []map[string]any
		want  []string // prefixes
	}{
		{"equal", client.Legacy, good, nil},
		{"missing schema", client.Modern, good, []string{`"a__get": outputSchema differs`}},
		{"missing item", client.Legacy, func() []map[string]any { return good()[:1] }, []string{`"b__get" is not listed`}},
		{"duplicate item", client.Legacy, func() []map[string]any { return append(good(), good()[0]) }, []string{`"a__get" is listed twice`}},
		{"unknown item", client.Legacy, func() []map[string]any { return append(good(), map[string]any{"name": "a__ask"}) },
			[]string{`"a__ask" is listed, but no server has it`}},
		{"changed member", client.Legacy, func() []map[string]any {
			items := good()
			items[0]["inputSchema"] = map[string]any{"type": "object", "required": []any{"y"}}
			return items
		}, []string{`"a__get": inputSchema differs`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := kinds[0].compare(test.era, servers, native, test.items())
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
