package wire

import "testing"

func TestLevels(t *testing.T) {
	names := []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	last := LevelNone
	for _, name := range names {
		l, ok := ParseLevel(name)
		if !ok || l.String() != name || l <= last {
			t.Errorf("ParseLevel(%q) = %v, %v, after %v", name, l, ok, last)
		}
		last = l
	}
	for _, name := range []string{"", "none", "Info", "warn", " info"} {
		if l, ok := ParseLevel(name); ok || l != LevelNone {
			t.Errorf("ParseLevel(%q) = %v, %v; want none", name, l, ok)
		}
	}
	if LevelNone.String() != "" || Level(200).String() != "" {
		t.Error("a level without a name has one")
	}
}

func TestIsModernCode(t *testing.T) {
	for code, want := range map[int64]bool{
		CodeHeaderMismatch: true, CodeMissingCapability: true, CodeUnsupportedRev: true,
		CodeParse: false, CodeInvalidRequest: false, CodeMethodNotFound: false, CodeInvalidParams: false,
		CodeInternal: false, CodeResourceNotFound: false, CodeURLElicitation: false, 0: false,
	} {
		if IsModernCode(code) != want {
			t.Errorf("IsModernCode(%d) = %v", code, !want)
		}
	}
}
