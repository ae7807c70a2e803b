package webui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/pins"
	"mcpgateway/internal/wire"
)

// testHeld are definitions of a hostile server that wait for a decision.
var testHeld = []HeldTools{{Upstream: "files", Tools: []pins.Held{
	{Tool: hostile, Digest: "sha256:1", Now: wire.SetMember(wire.Raw(`{"name":"a"}`), "description", wire.String(hostile)), New: true},
	{Tool: "read", Digest: "sha256:2", Was: wire.Raw(`{"name":"read","description":"Reads."}`), Now: wire.SetMember(wire.Raw(`{"name":"read"}`), "description", wire.String("Reads. "+hostile))},
	{Tool: "old", Digest: "sha256:3", Now: wire.Raw(`{"name":"old"}`)},
	{Tool: "no", Digest: "sha256:4", Now: wire.Raw(`{"name":"no"}`), New: true, Refused: true},
}}}

// testGrants are grants whose every text is hostile.
var testGrants = []StoredGrant{
	{ID: "g1", Upstream: "files", Subject: hostile, PrincipalIssuer: hostile, Issuer: hostile, Scopes: []string{hostile}, Since: time.Now(), Expires: time.Now().Add(time.Hour), Renewable: true, Used: time.Now().Add(-3 * time.Hour)},
	{ID: "g2", Upstream: "files", Local: true, Issuer: "https://login.example", Since: time.Now(), Configured: true},
}

// act sends the form of an action as a browser would, with the token of the page at path.
func act(t *testing.T, c *Console, path string, form url.Values) (status int, location, body string) {
	t.Helper()
	form.Set("csrf", tokenOn(t, request{path: path}.to(c)))
	w := request{method: "POST", path: path, form: form}.to(c)
	return w.Code, w.Header().Get("Location"), w.Body.String()
}

// The page shows what has changed, and nothing of a definition becomes markup.
func TestApprovePage(t *testing.T) {
	for _, actions := range []bool{false, true} {
		c, _ := newTestConsole(t, Options{Actions: actions})
		body := request{path: "/ui/approve?done=accepted&tool=" + url.QueryEscape(hostile)}.to(c).Body.String()
		checkHarmless(t, "approve", body)
		for _, want := range []string{"<ins> &lt;script&gt;", "4 definitions", "1 of them refused", "is not known, only its digest", "⟨U+202E⟩"} {
			if !strings.Contains(body, want) {
				t.Errorf("the page lacks %s: %s", want, body)
			}
		}
		if got := strings.Contains(body, `value="accept"`); got != actions {
			t.Errorf("actions %v, and the buttons are there: %v", actions, got)
		}
		if strings.Index(body, `value="sha256:2"`) > strings.Index(body, `value="sha256:4"`) {
			t.Error("a refused definition comes before one that has changed")
		}
	}
}

func TestDecide(t *testing.T) {
	var decided []string
	answer := error(nil)
	c, _ := newTestConsole(t, Options{Actions: true, Pins: Pins{Decide: func(_ context.Context, upstream, tool, digest string, accept bool) error {
		decided = append(decided, fmt.Sprint(upstream, " ", tool, " ", digest, " ", accept))
		return answer
	}}})
	for _, tt := range []struct {
		decision string
		err      error
		status   int
		says     string
	}{
		{"accept", nil, 303, "files read sha256:2 true"},
		{"refuse", nil, 303, "files read sha256:2 false"},
		{"accept", pins.ErrNotHeld, 409, "another definition by now"},
		{"accept", errors.New("the disk is full"), 500, "the disk is full"},
		{"", nil, 400, "whether to accept"},
	} {
		decided, answer = nil, tt.err
		status, location, body := act(t, c, "/ui/approve", url.Values{"upstream": {"files"}, "tool": {"read"}, "digest": {"sha256:2"}, "decision": {tt.decision}, "q": {"re"}})
		if status != tt.status || !strings.Contains(strings.Join(decided, "")+body, tt.says) {
			t.Errorf("%s, %v: %d %v %s", tt.decision, tt.err, status, decided, body)
		}
		if status == http.StatusSeeOther && location != "/ui/approve?done="+map[string]string{"accept": "accepted", "refuse": "refused"}[tt.decision]+"&q=re&tool=read" {
			t.Errorf("it leads to %s", location)
		}
	}
}

// A page with very many definitions shows the first ones, and counts the others.
func TestManyDefinitions(t *testing.T) {
	var many []pins.Held
	for i := range 5000 {
		many = append(many, pins.Held{Tool: fmt.Sprintf("tool%04d", i), Digest: fmt.Sprint(i), Now: wire.Raw(`{"name":"x"}`), New: true})
	}
	c, _ := newTestConsole(t, Options{Pins: Pins{Held: func() ([]HeldTools, bool, error) { return []HeldTools{{"files", many}}, true, nil }}})
	body := request{path: "/ui/approve"}.to(c).Body.String()
	if n := strings.Count(body, `<section class="held"`); n != maxHeld || !strings.Contains(body, "4\u202f950 more definitions") {
		t.Errorf("%d definitions", n)
	}
	if body := (request{path: "/ui/approve?q=tool4321"}).to(c).Body.String(); strings.Count(body, `<section class="held"`) != 1 {
		t.Error("the search does not find a definition")
	}
}

func TestGrantsPage(t *testing.T) {
	for _, actions := range []bool{false, true} {
		c, _ := newTestConsole(t, Options{Actions: actions})
		body := request{path: "/ui/grants?done=" + url.QueryEscape(hostile)}.to(c).Body.String()
		checkHarmless(t, "grants", body)
		for _, want := range []string{"this machine&#39;s user", "https://login.example", "not configured", "renewed by itself", "was not told"} {
			if !strings.Contains(strings.ReplaceAll(body, "this machine's", "this machine&#39;s"), want) {
				t.Errorf("the page lacks %s: %s", want, body)
			}
		}
		if !strings.Contains(body, ">3 h ago<") || !strings.Contains(body, ">never<") {
			t.Error("the last uses are missing")
		}
		if got := strings.Contains(body, `action="/ui/grants"`); got != actions {
			t.Errorf("actions %v, and the buttons are there: %v", actions, got)
		}
		if body := (request{path: "/ui/grants?q=login.example"}).to(c).Body.String(); strings.Contains(body, "not configured") {
			t.Error("the search finds all grants")
		}
	}
}

func TestRevoke(t *testing.T) {
	var answer error
	told := true
	c, _ := newTestConsole(t, Options{Actions: true, Grants: Grants{Revoke: func(_ context.Context, _, id string) (Revoked, error) {
		if id != "g2" {
			return Revoked{}, ErrNoGrant
		}
		return Revoked{Upstream: "files", AtIssuer: told}, answer
	}}})
	for _, tt := range []struct {
		id   string
		told bool
		err  error
		want string
	}{
		{"g2", true, nil, "303 /ui/grants?done=files&told=yes"},
		{"g2", false, nil, "303 /ui/grants?done=files"},
		{"g3", true, nil, "409 "},
		{"g2", true, errors.New("the store is away"), "500 "},
	} {
		answer, told = tt.err, tt.told
		status, location, body := act(t, c, "/ui/grants", url.Values{"grant": {tt.id}})
		if got := fmt.Sprint(status, " ", location); got != tt.want || tt.err != nil && !strings.Contains(body, "still stored: the store is away") {
			t.Errorf("%+v: %s %s", tt, got, body)
		}
	}
}
