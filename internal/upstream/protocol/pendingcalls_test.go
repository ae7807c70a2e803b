package protocol

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestOwnerOfLogMessages(t *testing.T) {
	ann, bob := &call.Client{Key: "ann"}, &call.Client{Key: "bob"}
	loud := &call.Call{Client: ann, LogLevel: wire.LevelDebug}
	warnings := &call.Call{Client: ann, LogLevel: wire.LevelWarning}
	none := &call.Call{Client: ann}
	for _, test := range []struct {
		name   string
		calls  []*call.Call // oldest first
		method string
		level  string
		want   *call.Call
	}{
		{"the youngest that asked, not the youngest", []*call.Call{loud, none}, wire.NoteMessage, "info", loud},
		{"one that asked for less grave ones", []*call.Call{loud, warnings}, wire.NoteMessage, "info", loud},
		{"the younger of two that asked", []*call.Call{loud, warnings}, wire.NoteMessage, "error", warnings},
		{"no client asked", []*call.Call{none, warnings}, wire.NoteMessage, "info", warnings}, // the guard of this call drops the message
		{"another client is there", []*call.Call{loud, {Client: bob}}, wire.NoteMessage, "info", nil},
		{"another client asked", []*call.Call{{Client: bob, LogLevel: wire.LevelDebug}, none}, wire.NoteMessage, "info", nil},
		{"the gateway's own calls do not count", []*call.Call{loud, {LogLevel: wire.LevelDebug}}, wire.NoteMessage, "info", loud},
		{"no log message", []*call.Call{loud, none}, "notifications/other", "info", none},
		{"no call", nil, wire.NoteMessage, "info", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := NewPendingCalls()
			for _, c := range test.calls {
				if _, err := f.Begin(c); err != nil {
					t.Fatal(err)
				}
			}
			params := wire.SetMember(wire.Raw(`{}`), "level", wire.String(test.level))
			for range 20 { // the table is a map
				if got := f.NotificationOwner(test.method, params); got != test.want {
					t.Fatalf("owner %+v, want %+v", got, test.want)
				}
			}
		})
	}
}
