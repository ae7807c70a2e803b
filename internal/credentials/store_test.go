package credentials

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestStore holds every way to keep values to the same contract.
func TestStore(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() *Store) {
		s, other := open(), open()
		var got string
		if ok, err := s.load(t.Context(), "a", &got); ok || err != nil {
			t.Fatalf("something is there: %v", err)
		}
		if err := s.remove(t.Context(), "a", nil); err != nil {
			t.Errorf("removed before it was there: %v", err)
		}
		for _, v := range []string{"one", "two"} {
			if err := s.save(t.Context(), "a", v); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range []*Store{s, other} {
			if ok, err := s.load(t.Context(), "a", &got); !ok || err != nil || got != "two" {
				t.Errorf("got %q, %v, %v", got, ok, err)
			}
		}
		if ok, _ := s.load(t.Context(), "b", &got); ok {
			t.Error("what was kept under another name is there")
		}
		if err := s.remove(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Store{s, other} {
			if ok, err := s.load(t.Context(), "a", &got); ok || err != nil {
				t.Errorf("removed, and there: %v", err)
			}
		}
		if err := s.remove(t.Context(), "a", nil); err != nil {
			t.Errorf("removed twice: %v", err)
		}
	})
}

// TestNames lists the grants, and not those that were removed.
func TestNames(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() *Store) {
		s := open()
		one, two := grantName("up", "http://x", "1"), grantName("up", "http://x", "2")
		for _, name := range []string{one, two, one} {
			if err := s.save(t.Context(), name, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.remove(t.Context(), two, nil); err != nil {
			t.Fatal(err)
		}
		if names, err := open().names(t.Context()); err != nil || len(names) != 1 || names[0] != one {
			t.Errorf("got %q, %v", names, err)
		}
	})
}

// TestReplace saves what follows a value only if nothing was stored or removed since.
func TestReplace(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() *Store) {
		v := open().values
		save := func(value string) {
			t.Helper()
			if err := v.save(t.Context(), "a", []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		replaced := func(want string) {
			t.Helper()
			if err := v.replace(t.Context(), "a", []byte("1"), []byte("2")); err != nil {
				t.Fatal(err)
			}
			if got, err := v.load(t.Context(), "a"); err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
		save("1")
		replaced("2")
		save("3")
		replaced("3")
		if err := v.remove(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		replaced("")
	})
}

// TestStoreOnDisk checks that files are readable by their user only, do not contain
// stored text, and are rejected after a change.
func TestStoreOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	if err := s.save(t.Context(), "the name", "s3cret"); err != nil {
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
		if bytes.Contains(data, []byte("s3cret")) || bytes.Contains(data, []byte("the name")) {
			t.Errorf("%s shows what was kept", path)
		}
		return err
	})
	if err != nil || files != 2 {
		t.Fatalf("%d files, %v; want the key and one more", files, err)
	}
	var got string
	if ok, err := NewStore(dir).load(t.Context(), "the name", &got); !ok || err != nil || got != "s3cret" {
		t.Errorf("another process reads %q, %v", got, err)
	}

	file := s.values.(*folder).file("the name")
	sealed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, s *Store, name string) {
		t.Helper()
		if ok, err := s.load(t.Context(), name, &got); ok || err == nil || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, %v", what, ok, err)
		}
	}
	// A file that is moved to another name would give one principal the grant of another.
	if err := os.WriteFile(s.values.(*folder).file("another"), sealed, 0o600); err != nil {
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
	if ok, err := NewStore(dir).load(t.Context(), "the name", &got); !ok || err != nil {
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
	if err := running.save(t.Context(), "a", "one"); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{keyFile, grantsDir} {
		if err := os.RemoveAll(filepath.Join(dir, gone)); err != nil {
			t.Fatal(err)
		}
	}
	var got string
	if ok, err := running.load(t.Context(), "a", &got); ok || err != nil {
		t.Errorf("removed, and there: %v, %v", ok, err)
	}
	if err := NewStore(dir).save(t.Context(), "a", "two"); err != nil {
		t.Fatal(err)
	}
	if ok, err := running.load(t.Context(), "a", &got); !ok || err != nil || got != "two" {
		t.Errorf("what another process keeps with the new key is %q, %v", got, err)
	}
	if err := running.save(t.Context(), "b", "three"); err != nil {
		t.Fatal(err)
	}
	if ok, err := NewStore(dir).load(t.Context(), "b", &got); !ok || err != nil || got != "three" {
		t.Errorf("another process reads %q, %v", got, err)
	}
}

func TestOneKeyForMany(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if err := NewStore(dir).save(t.Context(), strings.Repeat("x", i+1), i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := NewStore(dir)
	for i := range 16 {
		var got int
		if ok, err := s.load(t.Context(), strings.Repeat("x", i+1), &got); !ok || err != nil || got != i {
			t.Errorf("%d: got %d, %v", i, got, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A folder that takes neither a lock nor a value stops no renewal: the value is kept in memory, and stored when
// the folder takes it again.
func TestRenewalInAFolderThatTakesNothing(t *testing.T) {
	dir, failed := t.TempDir(), 0
	s := OpenStore(StoreOptions{Folder: dir, Unsaved: func(error) { failed++ }})
	at := s.values.(*folder).file("n")
	lock := at + ".lock"
	if err := errors.Join(os.MkdirAll(filepath.Join(at, "x"), 0o700), os.Symlink(lock, lock)); err != nil {
		t.Fatal(err)
	}
	unlock, err := s.lock(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.renew(t.Context(), "n", nil, "renewed"); err != nil || failed != 1 {
		t.Errorf("%v; told %d times", err, failed)
	}
	unlock()
	var got string
	if ok, err := s.load(t.Context(), "n", &got); !ok || err != nil || got != "renewed" {
		t.Errorf("from memory: %q, %v, %v", got, ok, err)
	}
	if err := errors.Join(os.RemoveAll(at), os.Remove(lock)); err != nil {
		t.Fatal(err)
	}
	if left := s.saveUnsaved(t.Context()); left != 0 {
		t.Errorf("%d values are not stored", left)
	}
	if ok, err := NewStore(dir).load(t.Context(), "n", &got); !ok || err != nil || got != "renewed" {
		t.Errorf("from the folder: %q, %v, %v", got, ok, err)
	}
}
