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
// a line is worth more than the bound. The caller holds mu.
func (a *Audit) rotate() error {
	name := a.opt.File + "." + time.Now().UTC().Format(rotatedFormat)
	_, err := os.Lstat(name)
	if err == nil {
		err = fs.ErrExist
	} else if errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(a.opt.File, name)
	}
	if logged := a.renameFailed; err != nil {
		if a.renameFailed = true; !logged {
			a.opt.Logger.Warn("the file of the audit is full and cannot be renamed; it grows", zap.String("file", a.opt.File), zap.Error(err))
		}
		return nil
	}
	a.renameFailed = false
	_ = a.closeFile() // all lines are written
	if err := a.open(); err != nil {
		return err
	}
	a.prune()
	return nil
}

// prune removes the oldest rotated files beyond MaxFiles.
func (a *Audit) prune() {
	if a.opt.MaxFiles <= 0 {
		return
	}
	dir, base := filepath.Split(a.opt.File)
	entries, err := os.ReadDir(filepath.Clean(dir))
	var rotated []string
	for _, e := range entries {
		if end, ok := strings.CutPrefix(e.Name(), base); ok && rotatedPattern.MatchString(end) {
			rotated = append(rotated, e.Name())
		}
	}
	slices.Sort(rotated)
	for _, name := range rotated[:max(0, len(rotated)-a.opt.MaxFiles)] {
		err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
	}
	if err != nil {
		a.opt.Logger.Warn("old files of the audit cannot be removed", zap.String("file", a.opt.File), zap.Error(err))
	}
}
