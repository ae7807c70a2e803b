package pins

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

const changedTool = `{"name":"read","description":"EVIL","inputSchema":{"type":"object"}}`

// review returns the definitions that are held, and those that were accepted before.
func review(t *testing.T, s *Store, tools ...string) []Held {
	t.Helper()
	held, err := s.Review("files", raws(tools...))
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// One definition is accepted while another stays hidden. A process that starts later knows both texts.
func TestAcceptOneOfTwo(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	other := `{"name":"other","inputSchema":{"type":"object"}}`
	heldNow(s, true, pinnedTool)
	held := review(t, storeIn(t, dir), changedTool, other)
	if len(held) != 2 || held[0].Tool != "read" || held[0].New || string(held[0].Was) != strings.ReplaceAll(pinnedTool, `,"_meta":{"n":1}`, "") ||
		string(held[0].Now) != changedTool || !held[1].New || held[1].Was != nil {
		t.Fatalf("%+v", held)
	}
	if err := s.Decide("files", raws(changedTool, other), "read", held[0].Digest, true); err != nil {
		t.Fatal(err)
	}
	if got := heldNow(storeIn(t, dir), true, changedTool, other); got != "shown new" {
		t.Error(got)
	}
	if held = review(t, s, pinnedTool); len(held) != 1 || string(held[0].Was) != changedTool {
		t.Errorf("%+v", held)
	}
}

// A refused definition stays hidden and is marked, until it changes or is accepted.
func TestRefuse(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	heldNow(s, true, pinnedTool)
	digest := review(t, s, changedTool)[0].Digest
	if err := s.Decide("files", raws(changedTool), "read", digest, false); err != nil {
		t.Fatal(err)
	}
	reasons := storeIn(t, dir).Held("files", raws(changedTool), false)
	if !IsRefusal(reasons[0]) || !review(t, storeIn(t, dir), changedTool)[0].Refused {
		t.Errorf("%q", reasons)
	}
	again := strings.ReplaceAll(changedTool, "EVIL", "WORSE")
	if got := heldNow(s, true, again); got != "changed" || review(t, s, again)[0].Refused {
		t.Errorf("after another change: %s", got)
	}
	if err := s.Decide("files", raws(changedTool), "read", digest, true); err != nil {
		t.Fatal(err)
	}
	if got := heldNow(s, true, changedTool); got != "shown" || len(review(t, s, changedTool)) != 0 {
		t.Errorf("after it was accepted: %s", got)
	}
}

// Accepting all tools leaves out a refused definition, and keeps what was accepted before it. The name of its tool
// accepts it.
func TestAcceptAllButRefused(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	const other = `{"name":"other"}`
	heldNow(s, true, pinnedTool)
	digest := review(t, s, changedTool)[0].Digest
	if err := s.Decide("files", raws(changedTool), "read", digest, false); err != nil {
		t.Fatal(err)
	}
	accept := func(dryRun bool, only ...string) (added, changed, refused int) {
		t.Helper()
		c, err := storeIn(t, dir).Accept("files", raws(changedTool, other), only, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		return len(c.New), len(c.Changed), len(c.Refused)
	}
	for _, dryRun := range []bool{true, false} {
		if n, c, r := accept(dryRun); n != 1 || c != 0 || r != 1 {
			t.Errorf("dry run %t: %d new, %d changed, %d refused", dryRun, n, c, r)
		}
	}
	held := review(t, s, changedTool, other)
	if len(held) != 1 || !held[0].Refused || held[0].New || held[0].Was == nil {
		t.Errorf("after all were accepted: %+v", held)
	}
	if got := heldNow(s, true, pinnedTool); got != "shown" {
		t.Errorf("the definition accepted before: %s", got)
	}
	if n, c, r := accept(true, "read"); n != 0 || c != 0 || r != 1 {
		t.Errorf("dry run by name: %d new, %d changed, %d refused", n, c, r)
	}
	if n, c, r := accept(false, "read"); n != 0 || c != 1 || r != 0 {
		t.Errorf("by name: %d new, %d changed, %d refused", n, c, r)
	}
	if held = review(t, s, changedTool, other); len(held) != 0 {
		t.Errorf("after it was accepted by name: %+v", held)
	}
}

// A decision is about the definition at which the person looked, and about no other.
func TestDecideAboutAnother(t *testing.T) {
	s := storeIn(t, t.TempDir())
	heldNow(s, true, pinnedTool)
	digest := review(t, s, changedTool)[0].Digest
	for name, err := range map[string]error{
		"the definition has changed": s.Decide("files", raws(strings.ReplaceAll(changedTool, "EVIL", "WORSE")), "read", digest, true),
		"the tool is gone":           s.Decide("files", nil, "read", digest, true),
		"another name":               s.Decide("files", raws(changedTool), "write", digest, true),
		"another upstream's list":    s.Decide("files", raws(pinnedTool), "read", digest, false),
	} {
		if !errors.Is(err, ErrNotHeld) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := heldNow(s, true, changedTool); got != "changed" {
		t.Error(got)
	}
}

// Tools are accepted by name. A name that is not listed changes nothing.
func TestAcceptByName(t *testing.T) {
	s := storeIn(t, t.TempDir())
	a, b := `{"name":"a"}`, `{"name":"b"}`
	heldNow(s, true, pinnedTool)
	_, err := s.Accept("files", raws(pinnedTool, a, b), []string{"a", "c"}, false)
	if unknown, ok := errors.AsType[*UnknownToolError](err); !ok || unknown.Name != "c" || strings.Join(unknown.Listed, " ") != "a b read" {
		t.Errorf("%v", err)
	}
	change, err := s.Accept("files", raws(a, b), []string{"a"}, false)
	if err != nil || len(change.New) != 1 || len(change.Gone) != 0 {
		t.Errorf("%+v, %v", change, err)
	}
	if got := heldNow(s, true, pinnedTool, a, b); got != "shown shown new" {
		t.Error(got)
	}
}

// The text of a definition that an older version accepted is kept when it is listed again.
func TestTextOfOlderFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pins.json")
	digest := digestOf(wire.Raw(pinnedTool), false)
	if err := os.WriteFile(file, []byte(`{"upstreams":{"files":{"read":"`+digest+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if held := review(t, storeIn(t, dir), changedTool); len(held) != 1 || held[0].Was != nil || held[0].New {
		t.Errorf("%+v", held)
	}
	if got := heldNow(storeIn(t, dir), true, pinnedTool); got != "shown" {
		t.Fatal(got)
	}
	if held := review(t, storeIn(t, dir), changedTool); len(held) != 1 || held[0].Was == nil {
		t.Errorf("%+v", held)
	}
}

// A kept text that is not the accepted definition is not shown as it.
func TestTextThatWasEdited(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pins.json")
	heldNow(storeIn(t, dir), true, pinnedTool)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range []string{`{\"name\":\"read\",\"description\":\"another\"}`, `{`, `[]`} {
		at := strings.Index(string(text), `"definition":"`) + len(`"definition":"`)
		if err := os.WriteFile(file, []byte(string(text)[:at]+definition+`"}}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if held := review(t, storeIn(t, dir), changedTool); len(held) != 1 || held[0].Was != nil {
			t.Errorf("%s: %+v", definition, held)
		}
	}
}

// Texts are bounded. A definition whose text is not kept is pinned all the same, also if it names a member twice.
func TestTextsAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	long := `{"name":"long","description":"` + strings.Repeat("x", maxText) + `"}`
	double := `{"name":"double","description":"a","description":"b"}`
	heldNow(s, true, long, double)
	held := review(t, storeIn(t, dir), `{"name":"long"}`, `{"name":"double"}`)
	if len(held) != 2 || held[0].Was != nil || string(held[1].Was) != double {
		t.Errorf("%+v", held)
	}
	c := content{texts: maxTexts - 10}
	if c.keepText(&history{}, wire.Raw(pinnedTool)) || c.texts != maxTexts-10 {
		t.Errorf("%d bytes of texts", c.texts)
	}
}
