package credentials

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestStore(t *testing.T) {
	for name, dir := range map[string]string{"on disk": filepath.Join(t.TempDir(), "state"), "in memory": ""} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(dir)
			var got string
			if ok, err := s.load("a", &got); ok || err != nil {
				t.Fatalf("something is there: %v", err)
			}
			for _, v := range []string{"one", "two"} {
				if err := s.save("a", v); err != nil {
					t.Fatal(err)
				}
			}
			if ok, err := s.load("a", &got); !ok || err != nil || got != "two" {
				t.Errorf("got %q, %v, %v", got, ok, err)
			}
			if ok, _ := s.load("b", &got); ok {
				t.Error("what was kept under another name is there")
			}
			if err := s.remove("a"); err != nil {
				t.Fatal(err)
			}
			if ok, err := s.load("a", &got); ok || err != nil {
				t.Errorf("removed, and there: %v", err)
			}
			if err := s.remove("a"); err != nil {
				t.Errorf("removed twice: %v", err)
			}
		})
	}
}

// TestStoreOnDisk checks that files are readable by their user only, do not contain
// stored text, and are rejected after a change.
func TestStoreOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	if err := s.save("the name", "s3cret"); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("s3cret")) || bytes.Contains(data, []byte("name")) {
			t.Errorf("%s shows what was kept", path)
		}
		return err
	})
	if err != nil || files != 2 {
		t.Fatalf("%d files, %v; want the key and one more", files, err)
	}
	var got string
	if ok, err := NewStore(dir).load("the name", &got); !ok || err != nil || got != "s3cret" {
		t.Errorf("another process reads %q, %v", got, err)
	}

	file := s.file("the name")
	sealed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, s *Store, name string) {
		t.Helper()
		if ok, err := s.load(name, &got); ok || err == nil || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, %v", what, ok, err)
		}
	}
	// A file that is moved to another name would give one principal the grant of another.
	if err := os.WriteFile(s.file("another"), sealed, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("moved", s, "another")
	for what, data := range map[string][]byte{"changed": append(bytes.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1), "cut off": sealed[:5], "empty": nil} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(what, s, "the name")
	}
	if err := os.WriteFile(file, sealed, 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := NewStore(dir).load("the name", &got); !ok || err != nil {
		t.Fatalf("put back: %v", err)
	}
	if err := os.Chmod(filepath.Join(dir, keyFile), 0o640); err != nil {
		t.Fatal(err)
	}
	refused("a key that others can read", NewStore(dir), "the name")
}

// TestAnotherKey replaces a lost or disclosed key. All processes start again with the new
// one.
func TestAnotherKey(t *testing.T) {
	dir := t.TempDir()
	running := NewStore(dir)
	if err := running.save("a", "one"); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{keyFile, grantsDir} {
		if err := os.RemoveAll(filepath.Join(dir, gone)); err != nil {
			t.Fatal(err)
		}
	}
	var got string
	if ok, err := running.load("a", &got); ok || err != nil {
		t.Errorf("removed, and there: %v, %v", ok, err)
	}
	if err := NewStore(dir).save("a", "two"); err != nil {
		t.Fatal(err)
	}
	if ok, err := running.load("a", &got); !ok || err != nil || got != "two" {
		t.Errorf("what another process keeps with the new key is %q, %v", got, err)
	}
	if err := running.save("b", "three"); err != nil {
		t.Fatal(err)
	}
	if ok, err := NewStore(dir).load("b", &got); !ok || err != nil || got != "three" {
		t.Errorf("another process reads %q, %v", got, err)
	}
}

func TestOneKeyForMany(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if err := NewStore(dir).save(strings.Repeat("x", i+1), i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := NewStore(dir)
	for i := range 16 {
		var got int
		if ok, err := s.load(strings.Repeat("x", i+1), &got); !ok || err != nil || got != i {
			t.Errorf("%d: got %d, %v", i, got, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
