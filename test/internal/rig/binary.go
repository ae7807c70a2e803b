package rig

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// binary returns the path of a binary that Enter built.
func binary(t testing.TB, name string) string {
	t.Helper()
	var binaries map[string]built
	if err := json.Unmarshal([]byte(os.Getenv(builtEnv)), &binaries); err != nil {
		t.Fatalf("the binaries under test are not built: call rig.Enter in TestMain (%v)", err)
	}
	b := binaries[name]
	if b.Error != "" {
		t.Fatal(b.Error)
	}
	if err := noteSources(); err != nil {
		t.Fatal(err)
	}
	return b.Path
}

// noteSources reads the metadata of all sources of the tested programs. The go command caches the results of passed tests by the files that the
// tests opened: without this function it would report an old result for a changed gateway.
var noteSources = sync.OnceValue(func() error {
	root, err := root()
	if err != nil {
		return err
	}
	for _, name := range []string{"go.mod", "go.sum", "test/node_modules/.installed"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, folder := range []string{"cmd", "internal", "test/clients", "test/servers", "test/internal/tasksfixture", "test/internal/featuresfixture"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			_, err = os.Stat(path) // folders too: a new file changes them
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
})
