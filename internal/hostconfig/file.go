package hostconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"mcpgateway/internal/atomicfile"
)

// maxFile bounds the size of a file that is read. Claude Code keeps the history of projects in its file.
const maxFile = 64 << 20

// backupSuffix is the end of the name of a backup, beside the file.
const backupSuffix = ".before-gateway"

// File is a file of a host as it was read.
type File struct {
	Name   string // as the host names it
	Data   []byte
	Exists bool
	target string // what Name links to
	mode   fs.FileMode
}

// OthersMayRead reports whether the file was readable by other users when it was read. On Windows its mode does not say.
func (f *File) OthersMayRead() bool { return f.mode&0o044 != 0 && runtime.GOOS != "windows" }

// Read reads a file of a host. A file that does not exist is no error.
func Read(name string) (*File, error) {
	f := &File{Name: name, target: target(name), mode: 0o600}
	info, err := os.Stat(f.target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > maxFile:
		return nil, errors.New("it is larger than 64 MB")
	}
	f.Exists, f.mode = true, info.Mode().Perm()
	f.Data, err = os.ReadFile(f.target)
	return f, err
}

// target follows links, also one to a file that does not exist yet.
func target(name string) string {
	for range 16 {
		next, err := os.Readlink(name)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(name), next)
		}
		name = next
	}
	return name
}

// Folder is the folder of the file, or of what it links to.
func (f *File) Folder() string { return filepath.Dir(f.target) }

// Backup is the path of the backup, and of Before.
func (f *File) Backup() string { return f.Name + backupSuffix }

// Before returns the file before the last [File.Replace], empty if that created it.
func (f *File) Before() ([]byte, error) {
	data, err := os.ReadFile(f.Backup())
	if errors.Is(err, fs.ErrNotExist) {
		return []byte{}, nil
	}
	return data, err
}

// Replace replaces the file as a whole by other data, and keeps a backup of what it was. The file keeps its
// permissions; a new one and its folder are readable for this user only. It is an error if the file has changed
// since it was read.
func (f *File) Replace(data []byte) error { return f.ReplaceKeeping(data, f.Data) }

// ReplaceKeeping is Replace with another content for the backup.
func (f *File) ReplaceKeeping(data, backup []byte) error {
	if err := f.unchanged(); err != nil {
		return err
	}
	if f.Exists {
		if err := atomicfile.Write(f.Backup(), backup, f.mode); err != nil {
			return fmt.Errorf("no backup can be written, so nothing is changed: %w", err)
		}
	} else if err := os.MkdirAll(filepath.Dir(f.target), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(f.target, data, f.mode)
}

// Overwrite is Replace without a backup.
func (f *File) Overwrite(data []byte) error {
	if err := f.unchanged(); err != nil {
		return err
	}
	return atomicfile.Write(f.target, data, f.mode)
}

// Revert writes what the file was when it was read, after an Overwrite. A file that did not exist is removed.
func (f *File) Revert() error {
	if !f.Exists {
		return os.Remove(f.target)
	}
	return atomicfile.Write(f.target, f.Data, f.mode)
}

// Restore replaces the file by what it was before the last Replace, as Before returned it, and removes the backup. A
// file that Replace created is removed.
func (f *File) Restore(before []byte) error {
	if err := f.unchanged(); err != nil {
		return err
	}
	_, err := os.Lstat(f.Backup())
	if errors.Is(err, fs.ErrNotExist) {
		return os.Remove(f.target)
	}
	if err != nil {
		return err
	}
	if err := atomicfile.Write(f.target, before, f.mode); err != nil {
		return err
	}
	return os.Remove(f.Backup())
}

// unchanged returns an error if the file is not as it was read: the host may have written it.
func (f *File) unchanged() error {
	now, err := os.ReadFile(f.target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if (err == nil) != f.Exists || !bytes.Equal(now, f.Data) {
		return fmt.Errorf("%s has changed in the meantime: run the command again", f.Name)
	}
	return nil
}
