package telemetry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// lineWriter writes batches of lines to a file or to standard output. One goroutine at a time
// may use it.
type lineWriter struct {
	opt          *AuditOptions
	open         func(name string) (lineFile, error)
	deviceOf     func(os.FileInfo) uint64 // tells file systems apart
	out          io.Writer                // nil while no file is open
	file         lineFile                 // out, unless that is standard output
	info         os.FileInfo              // of file, to notice that another file has its name
	size         int64                    // of file
	opened       bool                     // a file was opened
	device       uint64                   // of the folder in which the first file was opened
	torn         bool                     // the last line is incomplete
	renameFailed bool                     // the full file could not be renamed, and that was logged
}

// lineFile is the part of an *os.File that a lineWriter uses.
type lineFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Stat() (os.FileInfo, error)
	Sync() error
}

func newLineWriter(o *AuditOptions) lineWriter {
	w := lineWriter{opt: o, open: openFile, deviceOf: deviceOf}
	if o.File == AuditStdout {
		if w.out = o.Stdout; w.out == nil {
			w.out = os.Stdout
		}
	}
	return w
}

// openFile opens or creates a file. It is read only to see whether its last line is complete.
func openFile(name string) (lineFile, error) {
	return os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
}

// write writes the lines of a batch. The first lines are written after an error, too, but no
// action may follow from those that are not committed.
func (w *lineWriter) write(b *batch) (committed, written int, err error) {
	if b.empty() {
		return 0, 0, nil
	}
	if err = w.ready(); err != nil {
		return 0, 0, err
	}
	for written < len(b.lines) && err == nil {
		end := w.fit(b, written)
		if end == written {
			if err = w.rotate(); err != nil {
				return committed, written, err
			}
			if end = w.fit(b, written); end == written {
				end = len(b.lines) // the full file cannot be renamed
			}
		}
		written, err = w.writeLines(b, written, end)
		if w.opt.Sync && w.file != nil {
			if unsynced := w.file.Sync(); unsynced != nil {
				return committed, written, errors.Join(err, unsynced)
			}
		}
		committed = written
	}
	return committed, written, err
}

// fit returns the end of the lines that the file has room for, from a line on.
func (w *lineWriter) fit(b *batch, from int) int {
	if w.file == nil || w.opt.MaxBytes <= 0 {
		return len(b.lines)
	}
	end, room := from, w.opt.MaxBytes-w.size+int64(b.start(from))
	for end < len(b.lines) && int64(b.lines[end].at) <= room {
		end++
	}
	if end == from && w.size == 0 {
		end++
	}
	return end
}

// writeLines writes the lines from one up to another with one system call, and returns the number
// of the first line that is not written.
func (w *lineWriter) writeLines(b *batch, from, to int) (int, error) {
	start := b.start(from)
	if w.torn {
		start-- // the line break before ends the incomplete line
	}
	text := b.text[start:b.lines[to-1].at]
	n, err := w.out.Write(text)
	if n < len(text) && err == nil {
		err = io.ErrShortWrite
	}
	w.size += int64(n)
	if n > 0 {
		w.torn = text[n-1] != '\n'
	}
	for from < to && b.lines[from].at-1 <= start+n { // the next write brings a missing line break
		from++
	}
	return from, err
}

// ready makes sure that the file with the configured name is open.
func (w *lineWriter) ready() error {
	if w.opt.File == AuditStdout {
		return nil
	}
	if w.file != nil {
		now, err := os.Stat(w.opt.File)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err != nil || !os.SameFile(now, w.info): // another program has moved it
			_ = w.close()
		default:
			w.size = now.Size() // other processes may write to it
		}
	}
	if w.file == nil {
		return w.reopen()
	}
	return nil
}

// reopen opens or creates the file. It creates no folder, and no file on another file system than that
// of the first file: if the mount of the folder is lost, the lines would be lost with the next mount.
func (w *lineWriter) reopen() error {
	dir := filepath.Dir(w.opt.File)
	device, err := w.check(dir)
	if err != nil {
		return err
	}
	f, err := w.open(w.opt.File)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && w.opt.Sync {
		err = syncFolder(dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.torn = false
	if size := info.Size(); size > 0 {
		var last [1]byte
		_, err := f.ReadAt(last[:], size-1)
		w.torn = err != nil || last[0] != '\n'
	}
	w.out, w.file, w.info, w.size = f, f, info, info.Size()
	w.opened, w.device = true, device
	return nil
}

// CheckAuditFile returns why an audit cannot use the file with this name. It opens and creates nothing.
func CheckAuditFile(name string) error {
	if name == AuditStdout {
		return nil
	}
	w := newLineWriter(&AuditOptions{File: name})
	_, err := w.check(filepath.Dir(name))
	return err
}

// check returns the device of the folder of the file. The error says why the file may not be opened.
func (w *lineWriter) check(dir string) (device uint64, err error) {
	if info, err := os.Stat(w.opt.File); err == nil && !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file; for standard output, use the name %q", w.opt.File, AuditStdout)
	}
	return w.checkFolder(dir)
}

// checkFolder returns the device of the folder. The error says why no file may be opened there.
func (w *lineWriter) checkFolder(dir string) (device uint64, err error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("the folder %s does not exist: create it, or mount its file system", dir)
	case err != nil:
		return 0, err
	}
	if device = w.deviceOf(info); w.opened && device != w.device {
		return 0, fmt.Errorf("the folder %s is on another file system than at the start: is its mount lost? Restart the gateway if this is right", dir)
	}
	return device, nil
}

// syncFolder has the disk keep the names of new files in a folder. Windows cannot, and needs
// not.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (w *lineWriter) close() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.out, w.file = nil, nil
	return err
}
