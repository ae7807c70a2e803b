package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
)

func openAudit(t *testing.T, o AuditOptions) *Audit {
	t.Helper()
	o.Logger, o.Metrics = zap.NewNop(), NewAuditMetrics()
	a := NewAudit(o)
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func content(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func before(t *testing.T, a *Audit, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if err := a.Before([]byte(l + "\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// The line of an action that begins is in the file at once. The line of one that has ended is
// written with the next line, or by Close.
func TestAuditIsWrittenInOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	a := openAudit(t, AuditOptions{File: file})
	before(t, a, "one")
	if got := content(t, file); got != "one\n" {
		t.Errorf("the file has %q", got)
	}
	a.After([]byte("two\n"))
	before(t, a, "three")
	if got := content(t, file); got != "one\ntwo\nthree\n" {
		t.Errorf("the file has %q", got)
	}
	a.After([]byte("four\n"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a.After([]byte("five\n"))
	if got := content(t, file); got != "one\ntwo\nthree\nfour\nfive\n" {
		t.Errorf("the file has %q", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

// The audit makes no folder: if that of its file is gone, lines are refused until it is back.
func TestAuditMakesNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	file := filepath.Join(dir, "audit.jsonl")
	want := "the folder " + dir + " does not exist"
	if err := NewAudit(AuditOptions{File: file}).Open(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("at the start: %v, want %q", err, want)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a := openAudit(t, AuditOptions{File: file})
	before(t, a, "one")
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := a.Before([]byte("two\n")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without the folder: %v, want %q", err, want)
	}
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	before(t, a, "three")
	if got := content(t, file); got != "one\nthree\n" {
		t.Errorf("the file has %q", got)
	}
}

// If another file system than at the start is at the place of the folder, its mount is lost, and
// lines are refused until it is back.
func TestAuditStaysOnItsFileSystem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	at := uint64(1)
	a := NewAudit(AuditOptions{File: file, Logger: zap.NewNop(), Metrics: NewAuditMetrics()})
	a.writer.deviceOf = func(os.FileInfo) uint64 { return at }
	t.Cleanup(func() { a.Close() })
	before(t, a, "one")
	lost := file + ".lost"
	if err := os.Rename(file, lost); err != nil {
		t.Fatal(err)
	}
	at = 2
	if err := a.Before([]byte("two\n")); err == nil || !strings.Contains(err.Error(), "is on another file system than at the start") {
		t.Errorf("on another file system: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made there: %v", err)
	}
	at = 1
	if err := os.Rename(lost, file); err != nil {
		t.Fatal(err)
	}
	before(t, a, "three")
	if err := os.Rename(file, lost); err != nil { // as logrotate does
		t.Fatal(err)
	}
	before(t, a, "four")
	if got := content(t, lost) + content(t, file); got != "one\nthree\nfour\n" {
		t.Errorf("the files have %q", got)
	}
}

// A file that another program moves, such as logrotate, keeps its lines. The next line begins
// a new file.
func TestAuditOutlivesItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	a := openAudit(t, AuditOptions{File: file})
	before(t, a, "one")
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	before(t, a, "two")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	before(t, a, "three")
	if err := errors.Join(os.Rename(file, file+".2"), os.WriteFile(file, []byte("other\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	before(t, a, "four")
	for name, want := range map[string]string{file + ".1": "one\n", file + ".2": "three\n", file: "other\nfour\n"} {
		if got := content(t, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

func TestAuditRotates(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.jsonl")
	strangers := []string{"audit.jsonl.1.gz", "audit.jsonl.20200101T000000.000000000Z.gz", "other.20200101T000000.000000000Z"}
	for _, name := range strangers {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := openAudit(t, AuditOptions{File: file, MaxBytes: 10, MaxFiles: 2})
	before(t, a, "one", "two", "three", "four", "five", "a line that is longer than a file", "six")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if !slices.Contains(strangers, e.Name()) {
			got = append(got, content(t, filepath.Join(dir, e.Name())))
		}
	}
	// The rotated files sort by age, after the current one.
	want := []string{"six\n", "four\nfive\n", "a line that is longer than a file\n"}
	if !slices.Equal(got, want) || len(entries) != len(strangers)+len(want) {
		t.Errorf("%d files, ours have %q; want %q", len(entries), got, want)
	}
}

// Without MaxBytes no file is renamed, and without MaxFiles none is removed.
func TestAuditKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	a := openAudit(t, AuditOptions{File: filepath.Join(dir, "a"), MaxBytes: 1})
	for i := range 20 {
		before(t, a, fmt.Sprint(i))
	}
	b := openAudit(t, AuditOptions{File: filepath.Join(t.TempDir(), "b")})
	before(t, b, strings.Repeat("x", 1<<20), "y")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 20 {
		t.Errorf("%d files, %v; want 20", len(entries), err)
	}
	if info, err := os.Stat(b.opt.File); err != nil || info.Size() != 1<<20+3 {
		t.Errorf("%v, %v", info, err)
	}
}

// Several gateways may share a file. None loses a line when another rotates it.
func TestAuditIsShared(t *testing.T) {
	dir := t.TempDir()
	const writers, lines = 4, 200
	var wg sync.WaitGroup
	for w := range writers {
		a := openAudit(t, AuditOptions{File: filepath.Join(dir, "a"), MaxBytes: 500})
		wg.Go(func() {
			for i := range lines {
				if err := a.Before(fmt.Appendf(nil, "%d/%d\n", w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all := map[string]bool{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		for line := range strings.Lines(content(t, filepath.Join(dir, e.Name()))) {
			all[line] = true
		}
	}
	if len(all) != writers*lines {
		t.Errorf("%d lines in %d files, want %d", len(all), len(entries), writers*lines)
	}
}

// A line that the last run could not complete is ended before the next one begins.
func TestAuditEndsATornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(file, []byte("whole\ntor"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := openAudit(t, AuditOptions{File: file})
	before(t, a, "next", "after")
	if got := content(t, file); got != "whole\ntor\nnext\nafter\n" {
		t.Errorf("the file has %q", got)
	}
}

// disk is a disk with room for a few bytes.
type disk struct {
	bytes.Buffer
	room int
}

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

// Before fails if the line cannot be written. After keeps the line and writes it later.
func TestAuditOfAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no other attempt to write comes between
		d := &disk{room: 6}
		a := openAudit(t, AuditOptions{File: AuditStdout, Stdout: d})
		before(t, a, "one")
		if err := a.Before([]byte("two\n")); err == nil {
			t.Error("the line is said to be written")
		}
		a.After([]byte("three\n"))
		a.After([]byte("four\n"))
		if err := a.Before([]byte("five\n")); err == nil {
			t.Error("the line is said to be written")
		}
		if n := testutil.ToFloat64(a.opt.Metrics.failures); n != 4 {
			t.Errorf("%v failures counted, want 4", n)
		}
		if a.Failure() == nil || testutil.ToFloat64(a.opt.Metrics.works) != 0 {
			t.Error("there is no failure")
		}
		d.room = 100
		before(t, a, "six")
		if n := testutil.ToFloat64(a.opt.Metrics.works); n != 1 {
			t.Errorf("after a write the gauge is %v", n)
		}
		if err := a.Failure(); err != nil {
			t.Errorf("the failure after a write: %v", err)
		}
		if got := d.String(); got != "one\ntw\nthree\nfour\nsix\n" {
			t.Errorf("written: %q", got)
		}
		d.room = 0
		a.After([]byte("seven\n"))
		if err := a.Close(); err == nil || !strings.HasPrefix(err.Error(), "1 lines of the audit are lost: ") {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestAuditThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{dir, os.DevNull} {
		if err := NewAudit(AuditOptions{File: file}).Open(); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewAudit(AuditOptions{File: filepath.Join(dir, "file", "audit")}).Open(); err == nil {
		t.Error("a folder that is a file is no error")
	}
}

func BenchmarkAudit(b *testing.B) {
	a := NewAudit(AuditOptions{File: filepath.Join(b.TempDir(), "a"), MaxBytes: 1 << 30, Logger: zap.NewNop(), Metrics: NewAuditMetrics()})
	defer a.Close()
	line := []byte(strings.Repeat("x", 400) + "\n")
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Before(line); err != nil {
			b.Fatal(err)
		}
		a.After(line)
	}
}
