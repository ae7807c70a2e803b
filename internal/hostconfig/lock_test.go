package hostconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Edits of one file under its lock lose nothing, whatever the file is called: it may be reached by links of the file and of its
// folder. Nothing is left beside it.
func TestLock(t *testing.T) {
	dir, locks := t.TempDir(), filepath.Join(t.TempDir(), "state", "locks")
	real := filepath.Join(dir, "real")
	for _, err := range []error{os.Mkdir(real, 0o700), os.Symlink(real, filepath.Join(dir, "linked")), os.Symlink("real/x", filepath.Join(dir, "y"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	names := []string{filepath.Join(real, "x"), filepath.Join(dir, "linked", "x"), filepath.Join(dir, "y")}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			name := names[i%len(names)]
			unlock, err := Lock(t.Context(), locks, name)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			f, err := Read(name)
			if err == nil {
				err = f.Overwrite(fmt.Appendf(f.Data, "%d\n", i))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	data, err := os.ReadFile(names[0])
	if err != nil || strings.Count(string(data), "\n") != 12 {
		t.Errorf("the file has %q, %v", data, err)
	}
	if files, _ := os.ReadDir(real); len(files) != 1 {
		t.Errorf("files are left: %v", files)
	}
}

// Another file is not locked, and without a usable folder nothing is.
func TestLockOfOthers(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "none", "x")
	unlock, err := Lock(t.Context(), dir, name)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(over, dir, name); !errors.Is(err, context.Canceled) {
		t.Errorf("the same file: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ folder, name string }{{dir, name + "2"}, {"", name}, {file, name}} {
		other, err := Lock(over, c.folder, c.name)
		if err != nil {
			t.Errorf("%s in %q: %v", c.name, c.folder, err)
			continue
		}
		other()
	}
}

// Revert undoes Overwrite.
func TestRevert(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	for _, before := range []string{"", "old"} {
		f, err := Read(name)
		if err == nil {
			err = errors.Join(f.Overwrite([]byte("new")), f.Revert())
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(name); string(data) != before || (err == nil) != (before != "") {
			t.Errorf("the file has %q, %v, want %q", data, err, before)
		}
		if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
