package telemetry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// rotatedFormat is the suffix of rotated files: the time, so that their names sort by it.
const rotatedFormat = "20060102T150405.000000000Z"

var rotatedPattern = regexp.MustCompile(`^\.\d{8}T\d{6}\.\d{9}Z$`)

// rotate renames the full file and opens another. If the file cannot be renamed it grows:
// a line is worth more than the bound.
func (w *lineWriter) rotate() error {
	name := w.opt.File + "." + time.Now().UTC().Format(rotatedFormat)
	_, err := os.Lstat(name)
	if err == nil {
		err = fs.ErrExist
	} else if errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(w.opt.File, name)
	}
	if logged := w.renameFailed; err != nil {
		if w.renameFailed = true; !logged {
			w.opt.Logger.Warn("the file of the audit is full and cannot be renamed; it grows", zap.String("file", w.opt.File), zap.Error(err))
		}
		return nil
	}
	w.renameFailed = false
	_ = w.close() // all lines are written
	if err := w.reopen(); err != nil {
		return err
	}
	w.prune()
	return nil
}

// prune removes the oldest rotated files beyond MaxFiles.
func (w *lineWriter) prune() {
	if w.opt.MaxFiles <= 0 {
		return
	}
	dir, base := filepath.Split(w.opt.File)
	entries, err := os.ReadDir(filepath.Clean(dir))
	var rotated []string
	for _, e := range entries {
		if end, ok := strings.CutPrefix(e.Name(), base); ok && rotatedPattern.MatchString(end) {
			rotated = append(rotated, e.Name())
		}
	}
	slices.Sort(rotated)
	for _, name := range rotated[:max(0, len(rotated)-w.opt.MaxFiles)] {
		err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
	}
	if err != nil {
		w.opt.Logger.Warn("old files of the audit cannot be removed", zap.String("file", w.opt.File), zap.Error(err))
	}
}
