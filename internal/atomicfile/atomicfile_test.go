package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	for how, write := range map[string]func(string, []byte, fs.FileMode) error{"now": Write, "later": WriteLater} {
		dir := t.TempDir()
		name := filepath.Join(dir, "x.json")
		for i, mode := range []fs.FileMode{0o600, 0o644} {
			text := strings.Repeat("text", 2-i) // the second one is shorter
			if err := write(name, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(name)
			if err != nil || string(got) != text {
				t.Errorf("%s: %q, %v, want %q", how, got, err, text)
			}
			if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != mode {
				t.Errorf("%s: mode %v, %v, want %v", how, info.Mode(), err, mode)
			}
		}
		if all, _ := os.ReadDir(dir); len(all) != 1 {
			t.Errorf("%s: files are left: %v", how, all)
		}
	}
}

// A reader that has the file open reads the old content to its end.
func TestReadersKeepTheOldFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	if err := Write(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Write(name, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 9)
	if n, _ := f.Read(got); string(got[:n]) != "old" {
		t.Errorf("the reader got %q", got[:n])
	}
}

// An error leaves nothing behind, and names the file or its folder.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "none", "x"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "folder", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "folder"), nil, 0o600); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder in the place of the file: %v", err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("files are left: %v", all)
	}
}
