package telemetry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/polltest"
)

// testFile is a file whose writes and syncs a test sees.
type testFile struct {
	*os.File
	write func(p []byte) (int, error) // nil: of the file
	sync  func() error
}

func (f *testFile) Write(p []byte) (int, error) {
	if f.write == nil {
		return f.File.Write(p)
	}
	return f.write(p)
}

func (f *testFile) Sync() error { return f.sync() }

// openTestAudit opens an audit whose file set changes.
func openTestAudit(t *testing.T, o AuditOptions, set func(f *testFile)) *Audit {
	t.Helper()
	o.File = filepath.Join(t.TempDir(), "audit.jsonl")
	a := openAudit(t, o)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a.writer.open = func(name string) (lineFile, error) {
		f, err := openFile(name)
		if err != nil {
			return nil, err
		}
		tf := &testFile{File: f.(*os.File)}
		set(tf)
		return tf, nil
	}
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	return a
}

// waiting returns how many goroutines wait for the next batch.
func waiting(a *Audit) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.next.waiters)
}

// A line that nobody waits for is written soon, although no other line comes.
func TestEndsAreWrittenSoon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	synctest.Test(t, func(t *testing.T) {
		a := openAudit(t, AuditOptions{File: file})
		for i := range 3 {
			a.After(fmt.Appendf(nil, "%d\n", i))
			if got := len(content(t, file)); got != 2*i {
				t.Errorf("%d bytes are written at once", got-2*i)
			}
			time.Sleep(endInterval)
			synctest.Wait()
			if got := len(content(t, file)); got != 2*i+2 {
				t.Errorf("%d of %d bytes are written", got, 2*i+2)
			}
		}
	})
}

// Many lines that nobody waits for are written before they take much memory.
func TestEndsAreBounded(t *testing.T) {
	a := openAudit(t, AuditOptions{File: filepath.Join(t.TempDir(), "a")})
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range maxGathered/len(line) + 1 {
		a.After(line)
	}
	if got := len(content(t, a.opt.File)); got < maxGathered {
		t.Errorf("%d bytes are written", got)
	}
}

// Lines that come during a write share the next one. With Sync, they share one sync, and no
// method returns before it.
func TestLinesShareAWrite(t *testing.T) {
	const others = 8
	var log []string
	begun, release := make(chan struct{}), make(chan struct{})
	a := openTestAudit(t, AuditOptions{Sync: true}, func(f *testFile) {
		f.write = func(p []byte) (int, error) {
			if log = append(log, fmt.Sprint(strings.Count(string(p), "\n"), " lines")); len(log) == 1 {
				close(begun)
				<-release
			}
			return f.File.Write(p)
		}
		f.sync = func() error {
			log = append(log, "sync")
			return f.File.Sync()
		}
	})
	var wg sync.WaitGroup
	for i := range 1 + others {
		wg.Go(func() {
			line := fmt.Sprintf("line %d\n", i)
			if err := a.Before([]byte(line)); err != nil {
				t.Error(err)
			}
			if !strings.Contains(content(t, a.opt.File), line) {
				t.Errorf("%q is not written when Before returns", line)
			}
		})
		if i == 0 {
			<-begun
		}
	}
	polltest.Until(t, "all wait", func() bool { return waiting(a) == others })
	close(release)
	wg.Wait()
	if diff := cmp.Diff([]string{"1 lines", "sync", fmt.Sprint(others, " lines"), "sync"}, log); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// Calls whose lines cannot be synced are refused. Their lines are not written again.
func TestLinesThatAreNotSynced(t *testing.T) {
	var failure error
	a := openTestAudit(t, AuditOptions{Sync: true}, func(f *testFile) { f.sync = func() error { return failure } })
	failure = errors.New("input/output error")
	a.After([]byte("end\n"))
	if err := a.Before([]byte("one\n")); !errors.Is(err, failure) {
		t.Errorf("Before: %v", err)
	}
	failure = nil
	before(t, a, "two")
	if got := content(t, a.opt.File); got != "end\none\ntwo\n" {
		t.Errorf("the file has %q", got)
	}
}

// A write that fails fails the calls whose lines are not in the file, and no others. The lines
// that nobody waits for are written later, in their order, before those that came meanwhile.
func TestAFailureFailsOnlyItsCalls(t *testing.T) {
	d := &disk{room: 2}
	begun, release := make(chan struct{}), make(chan struct{})
	a := openTestAudit(t, AuditOptions{}, func(f *testFile) {
		f.write = func(p []byte) (int, error) {
			if d.Len() == 0 {
				close(begun)
				<-release
			}
			n, err := d.Write(p)
			if err != nil {
				d.room = 100 // for the next attempt, which may come before the last call of this test
			}
			return n, err
		}
	})
	var wg sync.WaitGroup
	errs := make([]error, 5)
	start := func(i int) { wg.Go(func() { errs[i] = a.Before(fmt.Appendf(nil, "%d\n", i)) }) }
	start(0)
	<-begun
	for i := 1; i < len(errs); i++ {
		start(i)
		polltest.Until(t, "it waits", func() bool { return waiting(a) == i })
		a.After(fmt.Appendf(nil, "end %d\n", i))
	}
	d.room = len("0\n" + "1\nend 1\n2\nen")
	close(release)
	wg.Wait()
	for i, err := range errs {
		if failed := err != nil; failed != (i > 2) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if n := testutil.ToFloat64(a.opt.Metrics.failures); n != 5 {
		t.Errorf("%v failures counted, want 5", n)
	}
	before(t, a, "more")
	if got, want := d.String(), "0\n1\nend 1\n2\nen\nend 2\nend 3\nend 4\nmore\n"; got != want {
		t.Errorf("written: %q, want %q", got, want)
	}
}

// Lines that could not be written are written as soon as they can be, although no other line
// comes.
func TestKeptLinesAreWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	synctest.Test(t, func(t *testing.T) {
		a := openAudit(t, AuditOptions{File: file})
		if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
			t.Fatal(err)
		}
		a.After([]byte("one\n"))
		time.Sleep(10 * endInterval)
		synctest.Wait()
		if n := testutil.ToFloat64(a.opt.Metrics.failures); n != 1 {
			t.Errorf("%v failures counted, want 1", n)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(endInterval)
		synctest.Wait()
		if got := content(t, file); got != "one\n" {
			t.Errorf("the file has %q", got)
		}
	})
}

// A batch is divided where the file is full.
func TestABatchIsRotated(t *testing.T) {
	dir := t.TempDir()
	a := openAudit(t, AuditOptions{File: filepath.Join(dir, "a"), MaxBytes: 10})
	for _, line := range []string{"one", "two", "three", "longer than a file", "four"} {
		a.After([]byte(line + "\n"))
	}
	before(t, a, "five")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, content(t, filepath.Join(dir, e.Name())))
	}
	want := []string{"four\nfive\n", "one\ntwo\n", "three\n", "longer than a file\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Whatever fails, and whatever happens at once: the line of a call that may be made is in the file,
// that of a call that may not is not, each line of an end is there once, and the lines of a
// goroutine have their order.
func TestAuditUnderChaos(t *testing.T) {
	d := &disk{}
	var mu sync.Mutex
	a := openTestAudit(t, AuditOptions{}, func(f *testFile) {
		f.write = func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if d.room = 1 << 20; rand.IntN(3) == 0 {
				d.room = rand.IntN(1 + len(p))
			}
			return d.Write(p)
		}
	})
	const writers, lines = 16, 200
	want := make([]string, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range lines {
				if a.Before(fmt.Appendf(nil, "%d/%d begins\n", w, i)) == nil {
					want[w] += fmt.Sprintf("%d/%d begins\n", w, i)
				}
				a.After(fmt.Appendf(nil, "%d/%d ends\n", w, i))
				want[w] += fmt.Sprintf("%d/%d ends\n", w, i)
			}
		})
	}
	wg.Wait()
	for a.Before([]byte("last\n")) != nil { // until all is written
	}
	got := make([]string, writers)
	for line := range strings.Lines(d.String()) {
		var w, i int
		var what string
		if n, _ := fmt.Sscanf(line, "%d/%d %s", &w, &i, &what); n == 3 && (what == "begins" || what == "ends") {
			got[w] += line
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A call that is alone allocates nothing for its lines.
func TestLinesAllocateNothing(t *testing.T) {
	a := openTestAudit(t, AuditOptions{}, func(f *testFile) { f.write = func(p []byte) (int, error) { return len(p), nil } })
	line := []byte(strings.Repeat("x", 400) + "\n")
	n := testing.AllocsPerRun(100, func() {
		if err := a.Before(line); err != nil {
			t.Fatal(err)
		}
		a.After(line)
	})
	// Whether another program has moved the file is asked once for each write.
	stat := testing.AllocsPerRun(100, func() { _, _ = os.Stat(a.opt.File) })
	if n > stat {
		t.Errorf("%v allocations, %v of them for os.Stat", n, stat)
	}
}
