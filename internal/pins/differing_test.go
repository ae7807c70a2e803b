package pins

import (
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// timed is a tool whose schema has another default value at every start.
func timed(at int) string {
	return fmt.Sprintf(`{"name":"now","description":"D","inputSchema":{"type":"object","properties":{"default":{"type":"string"},"at":{"type":"integer","default":%d}}}}`, at)
}

// reasonAt returns why a tool is held at a start, "" if it is shown.
func reasonAt(t *testing.T, dir string, bare bool, tool string) string {
	t.Helper()
	s := storeIn(t, dir)
	if bare {
		s.IgnoreDefaults("files")
	}
	first := s.Held("files", raws(tool), true)[0]
	if again := s.Held("files", raws(tool), true)[0]; again != first {
		t.Errorf("at first %q, again %q", first, again)
	}
	return first
}

// A tool that differs at every start is told as such, with what differs.
func TestDiffersAtEveryStart(t *testing.T) {
	dir := t.TempDir()
	for start, want := range []string{"", "has changed", "differs at every start: default values in inputSchema; set pin_defaults: false", "differs at every start"} {
		if got := reasonAt(t, dir, false, timed(start)); want == "" && got != "" || !strings.Contains(got, want) {
			t.Fatalf("start %d: %q, want %q", start, got, want)
		}
	}
	if got := reasonAt(t, dir, false, strings.Replace(timed(9), `"D"`, `"E"`, 1)); !strings.Contains(got, "differs at every start: description, inputSchema;") || strings.Contains(got, "pin_defaults") {
		t.Errorf("with another description: %q", got)
	}
	if got := reasonAt(t, dir, false, strings.Replace(timed(9), `"D"`, `"E"`, 1)); !strings.Contains(got, "has changed") {
		t.Errorf("the same as at the start before: %q", got)
	}
}

// A tool that was accepted after it had changed, and differs again, is told as such.
func TestDiffersAfterItWasAccepted(t *testing.T) {
	dir := t.TempDir()
	reasonAt(t, dir, false, timed(0))
	reasonAt(t, dir, false, timed(1))
	if _, err := storeIn(t, dir).Accept("files", raws(timed(2)), nil, false); err != nil {
		t.Fatal(err)
	}
	if got := reasonAt(t, dir, false, timed(3)); !strings.Contains(got, "differs at every start") {
		t.Errorf("%q", got)
	}
}

// An update now and then is no definition that always differs.
func TestUpdatesAreNoDifferenceAtEveryStart(t *testing.T) {
	dir := t.TempDir()
	for _, at := range []int{0, 1, 1, 2, 2, 3, 3} {
		if got := reasonAt(t, dir, false, timed(at)); strings.Contains(got, "every start") {
			t.Errorf("version %d: %q", at, got)
		}
	}
}

// Without default values the tool stays shown, and any other change is noticed. A tool that
// was pinned with them stays accepted.
func TestPinsWithoutDefaults(t *testing.T) {
	dir := t.TempDir()
	for start := range 4 {
		if got := reasonAt(t, dir, true, timed(start)); got != "" {
			t.Errorf("start %d: %q", start, got)
		}
	}
	for _, change := range [][2]string{{`"D"`, `"E"`}, {`"type":"integer"`, `"type":"number"`}, {`"default":{"type":"string"}`, `"default":{"type":"number"}`}} {
		if got := reasonAt(t, dir, true, strings.Replace(timed(0), change[0], change[1], 1)); !strings.Contains(got, "gateway pin accepts it") {
			t.Errorf("%s: %q", change, got)
		}
	}

	dir = t.TempDir()
	reasonAt(t, dir, false, timed(0))
	if got := reasonAt(t, dir, true, timed(0)); got != "" {
		t.Errorf("accepted with default values: %q", got)
	}
	if got := reasonAt(t, dir, true, timed(1)); !strings.Contains(got, "has changed") {
		t.Errorf("another default, before gateway pin: %q", got)
	}
	s := storeIn(t, dir)
	s.IgnoreDefaults("files")
	if _, err := s.Accept("files", raws(timed(1)), nil, false); err != nil {
		t.Fatal(err)
	}
	if got := reasonAt(t, dir, true, timed(2)); got != "" {
		t.Errorf("after gateway pin: %q", got)
	}
}

func TestWithoutDefaults(t *testing.T) {
	for in, want := range map[string]string{
		`{"default":1,"type":"object"}`:                             `{"type":"object"}`,
		`{"properties":{"default":{"default":1}}}`:                  `{"properties":{"default":{}}}`,
		`{"$defs":{"default":{"items":[{"default":1},true]}}}`:      `{"$defs":{"default":{"items":[{},true]}}}`,
		`{"const":{"default":1},"enum":[{"default":1}]}`:            `{"const":{"default":1},"enum":[{"default":1}]}`,
		`{"anyOf":[{"default":null},{"not":{"default":[]}}],"x":1}`: `{"anyOf":[{},{"not":{}}],"x":1}`,
		`{"properties":[{"default":1}]}`:                            `{"properties":[{"default":1}]}`,
		`"default"`:                                                 `"default"`,
	} {
		if got := string(withoutDefaults(wire.ValueOf(wire.Raw(in)))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	deep := strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000)
	if got := string(withoutDefaults(wire.ValueOf(wire.Raw(deep)))); got != deep {
		t.Error("a deep schema has changed")
	}
}
