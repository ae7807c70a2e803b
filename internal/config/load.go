package config

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// Load reads a gateway.yaml or the configuration of a host. env looks up environment variables, as
// [os.LookupEnv] does. Errors in the content are [Errors]; any other error says why the file could not
// be read.
func Load(path string, env func(string) (string, bool), opts ...Option) (*Config, error) {
	src := newSource(path, env, opts)
	data, err := src.read(path)
	if errors.Is(err, configfile.ErrTooLarge) {
		return nil, Errors{{File: path, Line: 1, Col: 1, Msg: err.Error()}}
	}
	if err != nil {
		return nil, err
	}
	return parse(src, data)
}

// Parse parses the content of a file. Errors contain the name of the file, and its extension selects the
// language, see [configfile.Parse]. Relative paths in the content are relative to the folder of the
// file. Parse reads the files that the content refers to.
func Parse(file string, data []byte, env func(string) (string, bool), opts ...Option) (*Config, error) {
	return parse(newSource(file, env, opts), data)
}

// WithFiles calls note for each file that is read, with its path, relative if the path of the
// configuration is, and its content, nil if it cannot be read. A file that is referred to twice is
// noted twice.
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

// WithReader replaces the function that reads the files that a configuration refers to.
func WithReader(read func(path string) ([]byte, error)) Option {
	return func(s *source) { s.read = read }
}

func newSource(file string, env func(string) (string, bool), opts []Option) source {
	src := source{file: file, dir: filepath.Dir(file), env: env, read: configfile.Read}
	for _, o := range opts {
		o(&src)
	}
	return src
}

func parse(src source, data []byte) (*Config, error) {
	root, parseErr := configfile.Parse(src.file, data)
	if parseErr != nil {
		return nil, Errors{parseErr}
	}
	doc, d := decode(src, root, data)
	if len(d.Errors) > 0 {
		return nil, d.Errors.Sorted()
	}
	slices.SortStableFunc(d.Warnings, configfile.CompareWarnings)
	doc.Config.Warnings, doc.Config.expansions, doc.Config.variables = d.Warnings, d.vars.done, d.vars.src.env
	return &doc.Config, nil
}

// decode decodes the content of a file, as far as it has no errors. The decoder has the errors.
func decode(src source, root *yaml.Node, data []byte) (*document, *decoder) {
	d := newDecoder(src, root, data)
	d.hosts = hasKey(root, "mcpServers", "servers") || hasKey(root, hostServerKeys...) || IsGoose(configfile.Child(root, gooseKey))
	d.readVariables()
	doc := new(document)
	d.structure(root, root, configfile.Path{}, "", reflect.ValueOf(doc).Elem())
	d.settingsWithoutEffect()
	return doc, d
}

// hasKey reports whether a mapping has one of the keys.
func hasKey(n *yaml.Node, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return configfile.Child(n, key) != nil })
}

// The errors of a configuration; see package configfile.
type (
	Error   = configfile.Error
	Errors  = configfile.Errors
	Warning = configfile.Warning
	Pos     = configfile.Pos
)
