package bridge

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestCreatedTask(t *testing.T) {
	for _, tc := range []struct {
		name     string
		revision wire.Revision
		asked    bool
		raw      string
		want     string // id, status and interval
	}{
		{"of the extension", wire.Rev20260728, false, `{"resultType":"task","taskId":"a","status":"working","pollIntervalMs":250}`, "a working 250ms"},
		{"of 2025-11-25", wire.Rev20251125, true, `{"task":{"taskId":"a","status":"working","pollInterval":250}}`, "a working 250ms"},
		{"a result with an unrelated member task", wire.Rev20251125, false, `{"content":[],"task":{"taskId":"a"}}`, ""},
		{"the older form of a modern upstream", wire.Rev20260728, true, `{"task":{"taskId":"a"}}`, ""},
		{"the newer form of a legacy upstream", wire.Rev20251125, true, `{"resultType":"task","taskId":"a"}`, ""},
		{"a repeated member", wire.Rev20260728, false, `{"resultType":"complete","resultType":"task","taskId":"a"}`, "a  0s"},
		{"an interval without bounds", wire.Rev20260728, false, `{"resultType":"task","taskId":"a","pollIntervalMs":99999999999999}`, "a  30s"},
		{"an interval below zero", wire.Rev20260728, false, `{"resultType":"task","taskId":"a","pollIntervalMs":-5}`, "a  0s"},
		{"without an id", wire.Rev20260728, false, `{"resultType":"task"}`, "  0s"},
		{"a plain result", wire.Rev20260728, false, `{"resultType":"complete"}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			task, ok := CreatedTask(call.Result{Raw: wire.Raw(tc.raw), Revision: tc.revision}, tc.asked)
			got := ""
			if ok {
				got = task.ID + " " + task.Status + " " + task.Poll.String()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestExtensionOfClients(t *testing.T) {
	for _, tc := range []struct{ name, in, with, without string }{
		{"nothing declared", ``, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, ``},
		{"nonsense declared", `7`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `7`},
		{"others", `{"roots":{},"extensions":{"x":{}}}`, `{"roots":{},"extensions":{"x":{},"io.modelcontextprotocol/tasks":{}}}`, `{"roots":{},"extensions":{"x":{}}}`},
		{"declared", `{"extensions":{"io.modelcontextprotocol/tasks":{},"x":{}}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{},"x":{}}}`, `{"extensions":{"x":{}}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &call.Client{Key: "k", Capabilities: wire.Raw(tc.in)}
			if diff := cmp.Diff(tc.with, string(WithTasksExtension(c).Capabilities)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.without, string(WithoutTasksExtension(c).Capabilities)); diff != "" {
				t.Error(diff)
			}
			if string(c.Capabilities) != tc.in || WithTasksExtension(c).Key != "k" {
				t.Errorf("the client was changed: %+v", c)
			}
		})
	}
}

func TestRelatedTask(t *testing.T) {
	const related = `{"taskId":"t1"}`
	for _, tc := range []struct{ name, in, without, with string }{
		{
			"alone", `{"a":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t0"}}}`, `{"a":1}`,
			`{"a":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`,
		},
		{
			"among others", `{"_meta":{"x":1,"io.modelcontextprotocol/related-task":{}}}`, `{"_meta":{"x":1}}`,
			`{"_meta":{"x":1,"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`,
		},
		{"absent", `{"action":"accept"}`, `{"action":"accept"}`, `{"action":"accept","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.without, string(WithoutRelatedTask(wire.Raw(tc.in)))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.with, string(WithRelatedTask(wire.Raw(tc.in), wire.Raw(related)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTaskIDs(t *testing.T) {
	ann, bob := &call.Principal{Subject: "ann", AuthMethod: "jwt"}, &call.Principal{Subject: "bob", AuthMethod: "jwt"}
	sealer := NewSealer()
	ref := TaskRef{Upstream: "files", Native: `native "id" ü`, Form: wire.EraModern, Tool: "read", Public: "files__read"}
	id := sealer.SealTask(ref, ann)
	if id == sealer.SealTask(ref, ann) {
		t.Error("two ids of one task are equal, so clients could compare their contents")
	}
	if strings.Contains(id, "native") || strings.Contains(id, "files") {
		t.Errorf("the id reveals its task: %s", id)
	}
	if got, err := sealer.OpenTask(id, ann); err != nil || got != ref {
		t.Errorf("opened %+v, %v, want %+v", got, err, ref)
	}
	flip := func(at int) string {
		b := []byte(id)
		if b[at] == 'A' {
			b[at] = 'B'
		} else {
			b[at] = 'A'
		}
		return string(b)
	}
	state := sealer.Seal(State{Kind: UpstreamState, Recipient: "files", Text: "x", Expires: time.Now().Add(time.Hour)}, taskBinding(ann))
	for _, tc := range []struct {
		name string
		id   string
		who  *call.Principal
		by   *Sealer
		want error
	}{
		{"another principal's", id, bob, sealer, ErrPrincipal},
		{"another profile's", id, ann.In("coding"), sealer, ErrPrincipal},
		{"with its last byte changed", flip(len(id) - 2), ann, sealer, ErrTampered},
		{"with its salt changed", flip(30), ann, sealer, ErrTampered},
		{"with its key's name changed", flip(5), ann, sealer, ErrUnknownKey},
		{"cut off", id[:len(id)/8*4], ann, sealer, ErrTampered},
		{"with extra characters", id + "AAAA", ann, sealer, ErrTampered},
		{"of another key", id, ann, NewSealer(), ErrUnknownKey},
		{"a native one", ref.Native, ann, sealer, ErrMalformed},
		{"an empty id", "", ann, sealer, ErrMalformed},
		{"a request state", state, ann, sealer, ErrTask},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := tc.by.OpenTask(tc.id, tc.who); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
	for _, native := range []string{"", strings.Repeat("x", maxTaskID+1)} {
		if got := sealer.SealTask(TaskRef{Native: native}, ann); got != "" {
			t.Errorf("a native id of %d bytes got the id %q", len(native), got)
		}
	}
}

// A task id is not valid as a request state.
func TestTaskIDIsNoState(t *testing.T) {
	sealer := NewSealer()
	id := sealer.SealTask(TaskRef{Upstream: "files", Native: "n"}, call.Anonymous)
	c := &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"a"}`), Principal: call.Anonymous}
	if _, err := sealer.Open(id, BindingOf(c), time.Now()); !errors.Is(err, ErrRequest) {
		t.Errorf("error %v, want %v", err, ErrRequest)
	}
}
