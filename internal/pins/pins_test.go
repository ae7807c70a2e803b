package pins

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"mcpgateway/internal/wire"
)

func storeIn(t *testing.T, dir string) *Store {
	t.Helper()
	p, err := Open(dir, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func raws(texts ...string) []wire.Raw {
	var out []wire.Raw
	for _, text := range texts {
		out = append(out, wire.Raw(text))
	}
	return out
}

// heldNow returns for each tool whether it is held, and why.
func heldNow(p *Store, fresh bool, tools ...string) string {
	var out []string
	for _, why := range p.Held("files", raws(tools...), fresh) {
		switch {
		case why == "":
			out = append(out, "shown")
		case strings.Contains(why, "is new"):
			out = append(out, "new")
		case strings.Contains(why, "has changed"):
			out = append(out, "changed")
		default:
			out = append(out, why)
		}
	}
	return strings.Join(out, " ")
}

const pinnedTool = `{"name":"read","title":"T","description":"D","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"n":1}}`

func TestPinsOfOneTool(t *testing.T) {
	dir := ""
	for _, tt := range []struct{ name, from, to, want string }{
		{"the same", ``, ``, "shown"},
		{"other spelling", `"D"`, `"\u0044"`, "shown"},
		{"space", `{"type":"object"}`, `{ "type" : "object" }`, "shown"},
		{"_meta", `"n":1`, `"n":2`, "shown"},
		{"an unknown member", `"_meta"`, `"x":1,"_meta"`, "shown"},
		{"name", `"read"`, `"rea"`, "new"},
		{"title", `"T"`, `"t"`, "changed"},
		{"description", `"D"`, `"D "`, "changed"},
		{"inputSchema", `"inputSchema":{"type":"object"`, `"inputSchema":{"type":"object","properties":{"p":{"description":"evil"}}`, "changed"},
		{"outputSchema", `"outputSchema":{"type":"object"},`, ``, "changed"},
		{"annotations", `true`, `false`, "changed"},
		{"a second description", `"_meta"`, `"description":"evil","_meta"`, "changed"},
		{"a description under an escape", `"description":"D"`, `"descr\u0069ption":"evil"`, "changed"},
	} {
		dir = t.TempDir()
		if got := heldNow(storeIn(t, dir), true, pinnedTool); got != "shown" {
			t.Fatalf("on first use: %s", got)
		}
		// Another process, with the same file.
		if got := heldNow(storeIn(t, dir), true, strings.ReplaceAll(pinnedTool, tt.from, tt.to)); tt.from != "" && got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "pins.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

func TestPinsOfAList(t *testing.T) {
	const a, b, evil, nameless = `{"name":"a"}`, `{"name":"b"}`, `{"name":"a","description":"evil"}`, `{"description":"x"}`
	dir := t.TempDir()
	p := storeIn(t, dir)
	if got := heldNow(p, false, a); got != "shown" || p.info != nil {
		t.Errorf("a list of an earlier run is accepted: %s", got)
	}
	if heldNow(p, true); p.info != nil {
		t.Error("an empty list is accepted")
	}
	if got := heldNow(p, true, a, nameless); got != "shown shown" {
		t.Errorf("on first use: %s", got)
	}
	if got := heldNow(p, true, evil, a, b, nameless); got != "changed shown new shown" {
		t.Errorf("later: %s", got)
	}
	if got := p.Held("other", raws(b), true); got[0] != "" {
		t.Errorf("another upstream: %s", got)
	}

	// Another process accepts.
	other := storeIn(t, dir)
	change, err := other.Accept("files", raws(evil, b), nil, true)
	if err != nil || change.Tools != 2 || len(change.New) != 1 || len(change.Changed) != 1 || len(change.Gone) != 1 || change.FirstAccepted {
		t.Errorf("change %+v, %v", change, err)
	}
	if p.Changed() || heldNow(p, true, evil) != "changed" {
		t.Error("a dry run has changed something")
	}
	if _, err := other.Accept("files", raws(evil, b), nil, false); err != nil {
		t.Fatal(err)
	}
	if !p.Changed() || p.Changed() {
		t.Error("what another process accepts is not noticed, or twice")
	}
	if got := heldNow(p, true, evil, a, b); got != "shown changed shown" {
		t.Errorf("accepted: %s", got)
	}
	if got := p.Held("other", raws(a), true); got[0] == "" {
		t.Error("accepting for one upstream has forgotten another")
	}
}

// Only a file with broken contents may be removed: what it accepts would be lost for a right that is missing.
func TestUnreadablePins(t *testing.T) {
	const remove = "or remove it"
	err := unreadable("state/pins.json", &fs.PathError{Op: "open", Path: "state/pins.json", Err: syscall.EACCES})
	if got := err.Error(); !strings.HasPrefix(got, "state/pins.json: the user that this runs as may not read it; ") || !strings.Contains(got, "chmod or chown") || strings.Contains(got, remove) {
		t.Error(got)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "pins.json")
	if err := os.Symlink("pins.json", file); err != nil { // a loop
		t.Fatal(err)
	}
	if _, err := Open(dir, zap.NewNop()); err == nil || strings.Contains(err.Error(), remove) {
		t.Errorf("a file that cannot be opened: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"upstreams":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, zap.NewNop()); err == nil || !strings.Contains(err.Error(), remove) {
		t.Errorf("broken contents: %v", err)
	}
}

// Tools that cannot be pinned are hidden, and a file that cannot be read is not replaced.
func TestPinsFailClosed(t *testing.T) {
	if _, err := Open("", zap.NewNop()); err == nil {
		t.Error("without a folder there is no error")
	}
	dir := filepath.Join(t.TempDir(), "state")
	p := storeIn(t, dir) // the folder is not there
	if got := heldNow(p, true, `{"name":"a"}`); got != "it cannot be pinned: state_dir cannot be written" {
		t.Errorf("pins that cannot be written: %s", got)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := heldNow(p, true, `{"name":"a"}`); got != "shown" {
		t.Errorf("pins that can be written: %s", got)
	}
	if err := os.WriteFile(p.file, []byte(`{"upstreams":{"files":{},"files":{}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := heldNow(p, true, `{"name":"a"}`, `{"name":"b"}`); got != "shown new" {
		t.Errorf("what was read before: %s", got)
	}
	if got := p.Held("other", raws(`{"name":"c"}`), true); got[0] != "it cannot be pinned: the file of pinned tools cannot be read" {
		t.Errorf("the first list of another upstream: %q", got)
	}
	if _, err := Open(dir, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "repair the file, or remove it") {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if _, err := p.Accept("files", nil, nil, false); err == nil {
		t.Error("a file that cannot be read is written over")
	}
}
