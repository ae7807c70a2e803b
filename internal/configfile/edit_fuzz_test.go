package configfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// FuzzEdit changes any file: each change is the intended one or an error, and never a panic.
func FuzzEdit(f *testing.F) {
	for _, pattern := range []string{"testdata/edit/*.txtar", "../config/testdata/good/*.yaml", "../config/testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, bad := NewEdit("f.yaml", []byte(text))
		if bad != nil || len(text) > 1<<14 {
			return
		}
		if bad := e.Set("upstreams", "new-one", entryOf(t, "")); bad != nil {
			if bad.Line < 1 || bad.Col < 1 || string(e.Bytes()) != text {
				t.Errorf("after the error %v the text is\n%s", bad, e.Bytes())
			}
		} else if !e.Has("upstreams", "new-one") {
			t.Errorf("no entry in\n%s", e.Bytes())
		}
		if s := e.section("upstreams"); s.value != nil {
			keys := keysOf(s.value)
			for i, key := range keys {
				twice := slices.Contains(keys[:i], key) || slices.Contains(keys[i+1:], key) // which a configuration refuses
				if bad := e.Remove("upstreams", key); bad == nil && !twice && e.Has("upstreams", key) {
					t.Errorf("%q is still in\n%s", key, e.Bytes())
				}
			}
		}
		_ = e.SetScalar("env_file", "x", "upstreams")
	})
}
