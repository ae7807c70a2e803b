package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	whole, broken := tally{passed: 3}, tally{passed: 2, failed: 1, complaints: []complaint{{"x", false, "it broke"}}}
	for _, test := range []struct {
		name            string
		direct, through results
		want            []string
	}{
		{"equal", results{"ping": whole}, results{"ping": whole}, nil},
		{"equal with failures", results{"ping": broken}, results{"ping": broken}, nil},
		{"worse", results{"ping": whole}, results{"ping": broken},
			[]string{"ping: 2 passed, 1 failed, the fixture itself 3 passed, 0 failed\n    failure x: it broke"}},
		{"better is a deviation too", results{"ping": broken}, results{"ping": whole},
			[]string{"ping: 3 passed, 0 failed, the fixture itself 2 passed, 1 failed"}},
		{"fewer checks", results{"ping": whole}, results{"ping": {passed: 2}},
			[]string{"ping: 2 passed, 0 failed, the fixture itself 3 passed, 0 failed"}},
		{"not run", results{"ping": {}}, results{}, []string{"ping: 0 passed, 0 failed, the fixture itself 0 passed, 0 failed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, compare(test.direct, test.through)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(folder, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "checks.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("server-tools-list-2026-11-21T00-58-58-569Z", `[{"id":"a","status":"SUCCESS"},{"id":"b","status":"FAILURE","errorMessage":"no"},
		{"id":"c","status":"INFO"},{"id":"d","status":"SKIPPED"},{"id":"e","status":"WARNING","errorMessage":"hm"}]`)
	write("server-json-schema-2020-12-2026-11-21T00-58-59-446Z", `[]`)
	got, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := results{
		"tools-list":          {passed: 1, failed: 1, complaints: []complaint{{"b", false, "no"}, {"e", true, "hm"}}},
		"json-schema-2020-12": {},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tally{}, complaint{})); diff != "" {
		t.Error(diff)
	}
	write("server-ping-2026-11-21T00-58-59-446Z", `[{"id":"a","status":"MAYBE"}]`)
	if _, err := read(dir); err == nil || err.Error() != `scenario ping: check a: unknown status "MAYBE"` {
		t.Errorf("error %v", err)
	}
}
