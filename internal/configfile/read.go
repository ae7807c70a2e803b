package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// MaxSize bounds a configuration, and each file that it refers to.
const MaxSize = 1 << 20

// ErrTooLarge is the error for a file of more than [MaxSize] bytes.
var ErrTooLarge = errors.New("is larger than 1MiB")

// Read reads a file of at most [MaxSize] bytes. An error is [ErrTooLarge] or one of [Unreadable].
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Unreadable(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, Unreadable(path, err)
	}
	if len(data) > MaxSize {
		return nil, ErrTooLarge
	}
	return data, nil
}

// Parse parses the content of a file. The extension of its name selects the language: .json and .jsonc
// JSON with comments and trailing commas, .toml TOML, any other YAML or such JSON.
func Parse(name string, data []byte) (*yaml.Node, *Error) { return ParseUpTo(name, data, MaxSize) }

// ParseUpTo is [Parse] for a file of at most so many bytes.
func ParseUpTo(name string, data []byte, most int) (*yaml.Node, *Error) {
	root, err := parse(name, data, most)
	if err != nil {
		err.File = name
	}
	return root, err
}

func parse(name string, data []byte, most int) (*yaml.Node, *Error) {
	if len(data) > most {
		return nil, &Error{Line: 1, Col: 1, Msg: fmt.Sprintf("is larger than %dMiB", most>>20)}
	}
	if err := notText(data); err != nil {
		return nil, err
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc":
		return parseJSON(data)
	case ".toml":
		return parseTOML(data)
	}
	return parseYAML(data)
}

// unreadable is an error of opening or reading a file, with advice.
type unreadable struct {
	path string
	err  error
}

// Unreadable is an error that says why a file cannot be opened or read, and what to do. It
// unwraps to err.
func Unreadable(path string, err error) error { return &unreadable{path, err} }

func (u *unreadable) Unwrap() error { return u.err }

func (u *unreadable) Error() string {
	switch {
	case errors.Is(u.err, fs.ErrNotExist):
		text := u.path + ": there is no such file"
		where, folder := " in ", filepath.Dir(u.path)
		if folder != "." && filepath.IsLocal(folder) {
			where, folder = " below ", "."
		}
		if at, err := filepath.Abs(folder); err == nil && !filepath.IsAbs(u.path) {
			text += where + at
		}
		return text + "; give the path of a gateway.yaml or of a host's mcp.json"
	case errors.Is(u.err, syscall.EISDIR):
		return fmt.Sprintf("%s: is a folder; give a file, such as %s", u.path, filepath.Join(u.path, "gateway.yaml"))
	case errors.Is(u.err, fs.ErrPermission):
		return u.path + ": the user that this runs as may not read it; give them the right to, such as with chmod or chown"
	}
	return fmt.Sprintf("%s: cannot be read: %v", u.path, Reason(u.err))
}

// unwritable is an error of making or writing a file, with advice.
type unwritable struct {
	text string
	err  error
}

func (u *unwritable) Unwrap() error { return u.err }
func (u *unwritable) Error() string { return u.text }

// Unwritable is an error that says why a file cannot be written, and what to do. It unwraps to err. An error that is not
// about the folder or the rights stays as it is.
func Unwritable(path string, err error) error {
	folder := filepath.Dir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &unwritable{fmt.Sprintf("%s: there is no folder %s; make it first, or name another file", path, folder), err}
	case errors.Is(err, syscall.ENOTDIR):
		return &unwritable{fmt.Sprintf("%s: a part of the path is a file and not a folder; name another file", path), err}
	case errors.Is(err, syscall.EROFS):
		return &unwritable{path + ": cannot be written, since its file system is read-only; use another folder", err}
	case errors.Is(err, fs.ErrPermission):
		if full, err := filepath.Abs(folder); err == nil {
			folder = full
		}
		return &unwritable{fmt.Sprintf("%s: the user that this runs as may not write it or its folder %s; give them the right to, such as with chmod or chown, or use another folder", path, folder), err}
	}
	return err
}

// Reason is the cause of an error of [Read], without the name of the file.
func Reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// notText is the error for content that is text in no language; nil if it is text. The error has
// no File.
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
