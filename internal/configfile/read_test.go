package configfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// A test that runs as root could not be refused a file, so the error is made.
func TestUnreadable(t *testing.T) {
	err := Unreadable("a.yaml", &fs.PathError{Op: "open", Path: "a.yaml", Err: fs.ErrPermission})
	const want = "a.yaml: the user that this runs as may not read it; give them the right to, such as with chmod or chown"
	if err.Error() != want || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("it says %v", err)
	}
	if got := Reason(err); got != fs.ErrPermission {
		t.Errorf("for a file that a key names it says %v", got)
	}
}

// As TestUnreadable, for the errors of writing.
func TestUnwritable(t *testing.T) {
	t.Chdir(t.TempDir())
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	other := errors.New("a.yaml has changed in the meantime")
	for want, why := range map[string]error{
		"a.yaml: the user that this runs as may not write it or its folder " + folder + "; give them the right to, such as with chmod or chown, or use another folder": &fs.PathError{Op: "open", Path: "./.a.yaml.19.tmp", Err: syscall.EACCES},
		"a.yaml: cannot be written, since its file system is read-only; use another folder":                                                                            &fs.PathError{Op: "open", Path: "a.yaml", Err: syscall.EROFS},
		other.Error(): other,
	} {
		if err := Unwritable("a.yaml", why); err.Error() != want || !errors.Is(err, why) {
			t.Errorf("it says %v, want %s", err, want)
		}
	}
}
