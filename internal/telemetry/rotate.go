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

// rotated is how names of closed files end: the time, so that they sort by it.
const rotated = "20060102T150405.000000000Z"

var rotatedForm = regexp.MustCompile(`^\.\d{8}T\d{6}\.\d{9}Z$`)

// rotate gives the full file a name of its own, and begins another. Where that
// cannot be done the file grows: a line is worth more than a bound. The caller
// holds mu.
func (a *Audit) rotate() error {
	name := a.opt.File + "." + time.Now().UTC().Format(rotated)
	_, err := os.Lstat(name)
	if err == nil {
		err = fs.ErrExist
	} else if errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(a.opt.File, name)
	}
	if told := a.stuck; err != nil {
		if a.stuck = true; !told {
			a.opt.Logger.Warn("the file of the audit is full and cannot be renamed; it grows", zap.String("file", a.opt.File), zap.Error(err))
		}
		return nil
	}
	a.stuck = false
	_ = a.closeFile() // every line of it was written
	if err := a.open(); err != nil {
		return err
	}
	a.prune()
	return nil
}

// prune removes the oldest closed files over those that are kept.
func (a *Audit) prune() {
	if a.opt.MaxFiles <= 0 {
		return
	}
	dir, base := filepath.Split(a.opt.File)
	entries, err := os.ReadDir(filepath.Clean(dir))
	var closed []string
	for _, e := range entries {
		if end, ok := strings.CutPrefix(e.Name(), base); ok && rotatedForm.MatchString(end) {
			closed = append(closed, e.Name())
		}
	}
	slices.Sort(closed)
	for _, name := range closed[:max(0, len(closed)-a.opt.MaxFiles)] {
		err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
	}
	if err != nil {
		a.opt.Logger.Warn("old files of the audit cannot be removed", zap.String("file", a.opt.File), zap.Error(err))
	}
}
