package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxFile bounds a configuration, and each file that it refers to.
const maxFile = 1 << 20

// Load reads a file: gateway.yaml, or the configuration of a host. env looks
// up environment variables, as [os.LookupEnv] does. Faults of the content are
// [Errors]; an error of another type says why the file could not be read.
func Load(path string, env func(string) (string, bool), opts ...Option) (*Config, error) {
	src := newSource(path, env, opts)
	data, err := src.read(path)
	if errors.Is(err, errTooLarge) {
		return nil, Errors{{File: path, Line: 1, Col: 1, Msg: err.Error()}}
	}
	if err != nil {
		return nil, err
	}
	return parse(src, data)
}

// Parse reads the content of a file. file names it in errors, its ending tells
// JSON (.json, .jsonc: comments and trailing commas are allowed) from YAML, in
// whose place such JSON may stand too, and its folder is what relative paths in it
// are relative to. Files that the content refers to are read.
func Parse(file string, data []byte, env func(string) (string, bool), opts ...Option) (*Config, error) {
	return parse(newSource(file, env, opts), data)
}

// WithFiles has each file noted that is read: its path, which is relative where
// that of the configuration is, and its content, nil if it cannot be read. A file
// that is referred to twice is noted twice.
func WithFiles(note func(path string, data []byte)) Option {
	return func(s *source) {
		read := s.read
		s.read = func(path string) ([]byte, error) {
			data, err := read(path)
			note(path, data)
			return data, err
		}
	}
}

func newSource(file string, env func(string) (string, bool), opts []Option) source {
	src := source{file: file, dir: filepath.Dir(file), env: env, read: ReadFile}
	for _, o := range opts {
		o(&src)
	}
	return src
}

func parse(src source, data []byte) (*Config, error) {
	if len(data) > maxFile {
		return nil, Errors{{File: src.file, Line: 1, Col: 1, Msg: errTooLarge.Error()}}
	}
	root, fault := parseText(src.file, data)
	if fault != nil {
		fault.File = src.file
		return nil, Errors{fault}
	}
	d := newDecoder(src)
	d.data, d.root = data, root
	d.hosts = hasKey(root, "mcpServers", "servers") || hasKey(root, abroad...)
	var doc document
	d.structure(root, root, path{}, "", reflect.ValueOf(&doc).Elem())
	if len(d.errs) > 0 {
		return nil, d.errs.sorted()
	}
	slices.SortStableFunc(d.warnings, func(a, b Warning) int { return compareErrors((*Error)(&a), (*Error)(&b)) })
	doc.Config.Warnings, doc.Config.put = d.warnings, d.vars.put
	return &doc.Config, nil
}

// parseText reads the content of a file, in the language that the end of its name
// says. The error has no File.
func parseText(name string, data []byte) (*yaml.Node, *Error) {
	if fault := notText(data); fault != nil {
		return nil, fault
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc":
		return parseJSON(data)
	case ".toml":
		return parseTOML(data)
	}
	return parseYAML(data)
}

// hasKey tells whether a mapping has one of the keys.
func hasKey(n *yaml.Node, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return child(n, key) != nil })
}

var errTooLarge = fmt.Errorf("is larger than %v", Size(maxFile))

// ReadFile reads a file of bounded size, as [Load] does.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Unreadable(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, Unreadable(path, err)
	}
	if len(data) > maxFile {
		return nil, errTooLarge
	}
	return data, nil
}

// reason is an error of reading a file without the file's name.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
