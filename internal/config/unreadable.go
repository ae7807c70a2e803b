package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"unicode/utf8"
)

// unreadable is an error of opening or reading a file, in words that say what would
// be right. It unwraps to the error of the system.
type unreadable struct {
	path string
	err  error
}

// Unreadable says why a file cannot be opened or read, and what would be right. It
// unwraps to err.
func Unreadable(path string, err error) error { return &unreadable{path, err} }

func (u *unreadable) Unwrap() error { return u.err }

func (u *unreadable) Error() string {
	switch {
	case errors.Is(u.err, fs.ErrNotExist):
		text := u.path + ": there is no such file"
		if at, err := filepath.Abs("."); err == nil && !filepath.IsAbs(u.path) {
			text += " below " + at
		}
		return text + "; give the path of a gateway.yaml or of a host's mcp.json"
	case errors.Is(u.err, syscall.EISDIR):
		return fmt.Sprintf("%s: is a folder; give a file, such as %s", u.path, filepath.Join(u.path, "gateway.yaml"))
	case errors.Is(u.err, fs.ErrPermission):
		return u.path + ": the user that this runs as may not read it; give them the right to, such as with chmod or chown"
	}
	return fmt.Sprintf("%s: cannot be read: %v", u.path, reason(u.err))
}

// notText says why the content of a file cannot be a configuration, whatever it is
// written in; nil if it may be one. The error has no File.
func notText(data []byte) *Error {
	const right = "a configuration is text in UTF-8, YAML or JSON"
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return &Error{Line: 1, Col: 1, Msg: "is UTF-16, as some editors save text; save it as UTF-8"}
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return &Error{Line: 1, Col: 1, Msg: "is a binary file; " + right}
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			pos := posAt(data, i)
			return &Error{Line: pos.Line, Col: pos.Col, Msg: fmt.Sprintf("the byte 0x%02x is not UTF-8; %s", data[i], right)}
		}
		i += size
	}
	return nil
}
