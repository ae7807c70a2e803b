package webui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/inspect"
)

// testSessions has one of everything, of a hostile client.
func testSessions() *inspect.Sessions {
	who, now := inspect.ClientOf{Client: hostile, Version: hostile, Principal: hostile, Revision: "2025-11-25"}, time.Now()
	return &inspect.Sessions{
		Sessions: []inspect.ClientSession{{ClientOf: who, Digest: "0a1b2c3d", Since: now.Add(-time.Hour), Used: now, Calls: 3, Asks: 1, Subscriptions: 7, Streams: 2}},
		Listens:  []inspect.ListenStream{{ClientOf: who, Since: now, Lists: []string{"toolsListChanged"}, Resources: 4}},
		Parked:   []inspect.ParkedCall{{ClientOf: who, Digest: "4e5f6071", Request: "req-9", Method: "tools/call", Item: hostile, Since: now, Expires: now, Round: 2, Asks: []string{"elicitation/create"}}},
	}
}

// The page shows each session, listen stream and parked call, as far as the filters select it.
func TestSessionsPage(t *testing.T) {
	c, _ := newTestConsole(t, Options{})
	body := request{path: "/ui/sessions"}.to(c).Body.String()
	checkHarmless(t, "sessions", body)
	for _, want := range []string{"0a1b2c3d", `"num">7<`, "1 h ago", "toolsListChanged", "4e5f6071", "req-9", "<code>elicitation/create</code>", "round 2"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s: %s", want, body)
		}
	}
	for query, want := range map[string][3]bool{ // parked, session, listen
		"?q=REQ-9":                {true, false, false},
		"?q=0a1b2c3d":             {false, true, false},
		"?q=alert+2025-11-25":     {true, true, true},
		"?q=elicitation%2fcreate": {true, false, false},
		"?q=nothing":              {},
	} {
		body := request{path: "/ui/sessions" + query}.to(c).Body.String()
		got := [3]bool{strings.Contains(body, "4e5f6071</small>"), strings.Contains(body, "0a1b2c3d</small>"), strings.Contains(body, "<code>toolsListChanged")}
		if got != want {
			t.Errorf("%s shows %v, want %v", query, got, want)
		}
	}
}

// Rows are bounded, and those that were used last come first.
func TestManySessions(t *testing.T) {
	now := time.Now()
	c, _ := newTestConsole(t, Options{Sessions: func() *inspect.Sessions {
		s := &inspect.Sessions{}
		for i := range 1000 {
			s.Sessions = append(s.Sessions, inspect.ClientSession{Digest: fmt.Sprintf("%08d", i), Used: now.Add(time.Duration(i) * time.Second)})
		}
		return s
	}})
	body := request{path: "/ui/sessions"}.to(c).Body.String()
	for want, n := range map[string]int{"00000999": 1, "00000900": 1, "00000899": 0, "900 more sessions": 1} {
		if strings.Count(body, want) != n {
			t.Errorf("%q is there %d times, want %d", want, strings.Count(body, want), n)
		}
	}
	if body := (request{path: "/ui/sessions?q=00000007"}).to(c).Body.String(); !strings.Contains(body, "00000007</small>") {
		t.Error("the search does not find a session that is not shown")
	}
}
