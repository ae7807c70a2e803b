package namespace

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/wire"
)

func TestTask(t *testing.T) {
	prefixed, err := New("files", "files", "__")
	if err != nil {
		t.Fatal(err)
	}
	bare, err := New("files", "", "__")
	if err != nil {
		t.Fatal(err)
	}
	ids := func(native string) string { return map[string]string{"t1": "PUBLIC", "t2": "OTHER"}[native] }
	for _, tc := range []struct {
		name     string
		space    *Naming
		in, want string
	}{
		{
			"a working task", bare,
			`{ "taskId":"t1","status":"working","n":1e400}`, `{ "taskId":"PUBLIC","status":"working","n":1e400}`,
		},
		{
			"a completed one with its result", prefixed,
			`{"taskId":"t1","result":{"content":[{"type":"resource_link","uri":"file:///a"},{"type":"text","text":"t1 file:///a"}]}}`,
			`{"taskId":"PUBLIC","result":{"content":[{"type":"resource_link","uri":"files+file:///a"},{"type":"text","text":"t1 file:///a"}]}}`,
		},
		{
			"a failed one", prefixed,
			`{"taskId":"t1","error":{"code":-32002,"message":"t1","data":{"uri":"file:///a"}}}`,
			`{"taskId":"PUBLIC","error":{"code":-32002,"message":"t1","data":{"uri":"files+file:///a"}}}`,
		},
		{
			"a task with a question", prefixed,
			`{"taskId":"t1","inputRequests":{"k":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"file:///a"}}}]}}}}`,
			`{"taskId":"PUBLIC","inputRequests":{"k":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"files+file:///a"}}}]}}}}`,
		},
		{
			"the result of tasks/result", prefixed,
			`{"content":[{"type":"resource_link","uri":"file:///a"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`,
			`{"content":[{"type":"resource_link","uri":"files+file:///a"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"PUBLIC"}}}`,
		},
		{"a repeated member", bare, `{"taskId":"t1","taskId":"t2"}`, `{"taskId":"PUBLIC","taskId":"OTHER"}`},
		{"an id with an escape", bare, `{"taskId":"\u00741"}`, `{"taskId":"PUBLIC"}`},
		{"an unknown id", bare, `{"taskId":"t9"}`, `{"taskId":"t9"}`},
		{"an invalid id", bare, `{"taskId":1,"_meta":{"io.modelcontextprotocol/related-task":"t1"}}`, `{"taskId":1,"_meta":{"io.modelcontextprotocol/related-task":"t1"}}`},
		{"ids inside structured content stay", prefixed, `{"content":[],"structuredContent":{"taskId":"t1"}}`, `{"content":[],"structuredContent":{"taskId":"t1"}}`},
		{"no object", bare, `"t1"`, `"t1"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, string(tc.space.Task(wire.Raw(tc.in), ids))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTaskIDs(t *testing.T) {
	space, err := New("files", "files", "__")
	if err != nil {
		t.Fatal(err)
	}
	ids := func(native string) string { return map[string]string{"t1": "PUBLIC"}[native] }
	for _, tc := range []struct{ name, in, want string }{
		{"announced in 2025-11-25", `{"task":{"taskId":"t1","ttl":1}}`, `{"task":{"taskId":"PUBLIC","ttl":1}}`},
		{"announced in 2026-07-28", `{"resultType":"task","taskId":"t1"}`, `{"resultType":"task","taskId":"PUBLIC"}`},
		{
			"a question of a task", `{"message":"t1","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1","x":1}}}`,
			`{"message":"t1","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"PUBLIC","x":1}}}`,
		},
		{"references are not rewritten here", `{"taskId":"t9","content":[{"type":"resource_link","uri":"file:///a"}]}`, `{"taskId":"t9","content":[{"type":"resource_link","uri":"file:///a"}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, string(space.TaskIDs(wire.Raw(tc.in), ids))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
