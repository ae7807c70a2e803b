package configfile

import (
	"errors"
	"io/fs"
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
