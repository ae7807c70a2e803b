package watch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/polltest"
)

const patience = 20 * time.Second

// watched watches files and accepts their changes until the test ends.
type watched struct {
	t       *testing.T
	w       *Watcher
	changed chan struct{} // a token for each change
	looks   atomic.Int64
}

func watch(t *testing.T, paths ...string) *watched {
	t.Helper()
	v := &watched{t: t, changed: make(chan struct{}, 100)}
	v.w = New(func(path string) ([]byte, error) { v.looks.Add(1); return os.ReadFile(path) }, zap.NewNop())
	expect := func() {
		var s Set
		for _, p := range paths {
			data, err := os.ReadFile(p)
			if err != nil {
				data = nil
			}
			s.Note(p, data)
		}
		v.w.Expect(s)
	}
	expect()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.w.Run(ctx, func() { expect(); v.changed <- struct{}{} })
	}()
	t.Cleanup(func() { cancel(); <-done })
	v.settle()
	return v
}

// settle waits until the files have been checked once more.
func (v *watched) settle() {
	v.t.Helper()
	before := v.looks.Load()
	v.w.Expect(v.w.expectedSet())
	polltest.Until(v.t, "the files are looked at", func() bool { return v.looks.Load() > before })
}

func (v *watched) wantChange(what string) {
	v.t.Helper()
	select {
	case <-v.changed:
	case <-time.After(patience):
		v.t.Fatalf("%s: no change was seen", what)
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// over overwrites a file, which is never empty meanwhile.
func over(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) string {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatChange(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "a"), "one")
	later := filepath.Join(dir, "later")
	v := watch(t, path, later)
	write(t, path, "two")
	v.wantChange("written in place")
	rename(t, write(t, filepath.Join(dir, ".a.swp"), "three"), path)
	v.wantChange("written by a rename")
	write(t, path, "four")
	v.wantChange("written in place after the rename")
	write(t, later, "")
	v.wantChange("a file that was not there, and is empty")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	v.wantChange("removed")
}

// Writing the same content is no change, and neither are changes of other files.
func TestWhatIsNoChange(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "a"), "one")
	v := watch(t, path)
	over(t, path, "one")
	rename(t, write(t, filepath.Join(dir, "b"), "one"), path)
	write(t, filepath.Join(dir, "beside"), "x")
	v.settle()
	v.settle() // the first check has ended
	if n := len(v.changed); n > 0 {
		t.Errorf("%d changes were seen", n)
	}
	write(t, path, "two")
	v.wantChange("afterwards")
}

// Changes are seen in a folder with a file that is written all the time, such as an audit, and
// most events about that file are not even taken.
func TestBusyFolder(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "a"), "one")
	v := watch(t, path)
	audit, err := os.Create(filepath.Join(dir, "audit"))
	if err != nil {
		t.Fatal(err)
	}
	defer audit.Close()
	stop, written := make(chan struct{}), make(chan int)
	go func() {
		lines := 0
		defer func() { written <- lines }()
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for ; ; lines++ {
			select {
			case <-stop:
				return
			case <-pace.C:
				audit.WriteString("a line\n")
			}
		}
	}()
	for _, text := range []string{"two", "three", "four"} {
		write(t, path, text)
		v.wantChange(text)
	}
	close(stop)
	if lines, taken := <-written, v.w.ignored.Load(); taken > int64(lines)/2 {
		t.Errorf("%d events were taken for %d lines", taken, lines)
	}
}

// A ConfigMap: file → ..data/file, ..data → a folder, and ..data is replaced.
func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "..1", "a"), "one")
	link(t, "..1", filepath.Join(dir, "..data"))
	v := watch(t, link(t, filepath.Join("..data", "a"), filepath.Join(dir, "a")))
	for _, next := range []string{"..2", "..3", "..4"} {
		write(t, filepath.Join(dir, next, "a"), "in "+next)
		rename(t, link(t, next, filepath.Join(dir, "..data_tmp")), filepath.Join(dir, "..data"))
		v.wantChange(next)
	}
}

// A link to a file in another folder, which is reached through a link.
func TestLinksElsewhere(t *testing.T) {
	dir, there := t.TempDir(), t.TempDir()
	write(t, filepath.Join(there, "real1", "a"), "one")
	link(t, "real1", filepath.Join(there, "folder"))
	v := watch(t, link(t, filepath.Join(there, "folder", "a"), filepath.Join(dir, "a")))
	write(t, filepath.Join(there, "real1", "a"), "two")
	v.wantChange("the file that the link leads to")
	write(t, filepath.Join(there, "real2", "a"), "three")
	rename(t, link(t, "real2", filepath.Join(there, "new")), filepath.Join(there, "folder"))
	v.wantChange("the link to the folder")
	write(t, filepath.Join(there, "real2", "a"), "four")
	v.wantChange("the file in the other folder")
}

// A file that must not be read twice, such as a pipe, is not read.
func TestNoRegularFile(t *testing.T) {
	w := New(func(string) ([]byte, error) { t.Error("it was read"); return nil, nil }, zap.NewNop())
	var s Set
	s.Note(os.DevNull, []byte("read once"))
	if w.Expect(s); w.differs() {
		t.Error("it counts as changed")
	}
}

func TestPlaces(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "x", "a"), "")
	link(t, "loop", filepath.Join(dir, "loop"))
	link(t, "x/a", filepath.Join(dir, "b"))
	for path, want := range map[string][]string{"x/a": {"x/a"}, "b": {"b", "x/a"}, "none": {"none"}} {
		var got []string
		visitLinks(filepath.Join(dir, path), func(in, name string) {
			rel, err := filepath.Rel(dir, filepath.Join(in, name))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rel)
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	visitLinks(filepath.Join(dir, "loop"), func(string, string) {}) // ends
	visitLinks(filepath.Join(dir, "loop", "a"), func(string, string) {})
}
