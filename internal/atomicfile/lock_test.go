package atomicfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	unlock, err := Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(over, name); !errors.Is(err, context.Canceled) {
		t.Errorf("while it is held: %v", err)
	}
	other, err := Lock(t.Context(), name+"2")
	if err != nil {
		t.Fatalf("another file: %v", err)
	}
	other()
	unlock()
	again, err := Lock(over, name)
	if err != nil {
		t.Fatalf("after it was held: %v", err)
	}
	again()
	if _, err := Lock(t.Context(), filepath.Join(name, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// A lock that can only be read is one nevertheless.
func TestLockThatCannotBeWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	if err := os.Mkdir(name+".lock", 0o700); err != nil { // which nobody can open to write
		t.Fatal(err)
	}
	unlock, err := Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(over, name); !errors.Is(err, context.Canceled) {
		t.Errorf("while it is held: %v", err)
	}
}
