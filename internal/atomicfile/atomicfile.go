package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces a file, or makes it. The data is on the disk before the file has its name, so a power failure leaves a
// whole file, too.
func Write(name string, data []byte, mode fs.FileMode) error {
	tmp, err := Temp(name, data, mode)
	return rename(tmp, name, err)
}

// WriteLater is Write without the wait for the disk, for data that may be lost with the power.
func WriteLater(name string, data []byte, mode fs.FileMode) error {
	tmp, err := temp(name, data, mode, false)
	return rename(tmp, name, err)
}

// Temp writes a temporary file beside a file, to the disk. The caller renames or removes it.
func Temp(name string, data []byte, mode fs.FileMode) (tmp string, err error) {
	return temp(name, data, mode, true)
}

func temp(name string, data []byte, mode fs.FileMode, sync bool) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.tmp") // for this user only
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if mode != 0o600 {
		err = errors.Join(err, f.Chmod(mode))
	}
	if sync && err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// rename gives a temporary file its name, unless there was an error.
func rename(tmp, name string, err error) error {
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}
