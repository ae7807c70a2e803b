package config

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// readVariables reads the file of the key env_file, whose variables ${…} finds if the environment does not have them.
// Its own value can refer to the environment alone.
func (d *decoder) readVariables() {
	node := configfile.Child(d.root, "env_file")
	if node == nil || node.Kind != yaml.ScalarNode || node.Value == "" {
		return
	}
	name, _, err := d.vars.expand(node.Value)
	if err != nil || name == "" {
		return // it is reported when the key is decoded
	}
	at := configfile.Path{}.Key("env_file", "env_file")
	file := inFolder(d.dir, name)
	data, err := d.readVariableFile(file)
	if err != nil {
		d.Errorf(node, at, "%v", err)
		return
	}
	vars, environment := d.parseEnvFile(file, data, d.env), d.env
	d.vars.src.env = func(name string) (string, bool) {
		if value, ok := environment(name); ok {
			return value, true
		}
		value, ok := vars[name]
		return value.Reveal(), ok
	}
}

// mergeEnvFile adds the variables of envFile that env does not set. A file that cannot be read takes down this upstream
// alone, as a variable that is not set does: hosts name files of projects that come and go.
func (e *entry) mergeEnvFile(m *mapping) {
	data, err := m.d.readVariableFile(e.EnvFile)
	if unread, ok := errors.AsType[*unreadError](err); ok {
		e.leaveUnread(m, unread)
		return
	}
	if err != nil {
		m.errorf("envFile", "%v", err)
		return
	}
	vars := m.d.parseEnvFile(e.EnvFile, data, nil)
	maps.Copy(vars, e.Env)
	if len(vars) > 0 {
		e.Env = vars
	}
}

// unreadError is the error of a file of variables that cannot be read.
type unreadError struct {
	file   string
	reason error
}

func (e *unreadError) Error() string {
	return fmt.Sprintf("%s cannot be read: %v", configfile.Quote(e.file), e.reason)
}

// readVariableFile reads a file within the bound of all expansions. The error is an *unreadError or about the bound.
func (d *decoder) readVariableFile(file string) ([]byte, error) {
	data, err := d.read(file)
	if err != nil {
		return nil, &unreadError{file, configfile.Reason(err)}
	}
	return data, d.vars.take(len(data))
}

// parseEnvFile parses lines of NAME=value, as editors and shells do. It skips blank lines and lines that begin with #.
// export before a name is allowed. A value may be in quotes, see [quotedValue]; # after a space ends a value without quotes.
// With lookup, "…${NAME}…" contains the value of a variable of lookup or of an earlier line. Errors have the name of the
// file.
func (d *decoder) parseEnvFile(file string, data []byte, lookup func(string) (string, bool)) map[string]Secret {
	vars := make(map[string]Secret)
	known := lookup
	if lookup != nil {
		known = func(name string) (string, bool) {
			if value, ok := lookup(name); ok {
				return value, true
			}
			value, ok := vars[name]
			return value.Reveal(), ok
		}
	}
	rest := strings.TrimPrefix(string(data), "\ufeff")
	for line := 1; rest != ""; line++ {
		var text string
		text, rest, _ = strings.Cut(rest, "\n")
		if text = strings.TrimSpace(text); text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(text, "export "), "=")
		name = strings.TrimSpace(name)
		value, lines, err := envValue(strings.TrimSpace(value), rest, known)
		if !ok {
			err = errors.New("must be NAME=value")
		} else if err == nil {
			err = envEntry(name, value)
		}
		if err != nil {
			d.Errors = append(d.Errors, &Error{File: file, Line: line, Col: 1, Msg: err.Error()})
		} else {
			vars[name] = NewSecret(value)
		}
		for range lines {
			_, rest, _ = strings.Cut(rest, "\n")
		}
		line += lines
	}
	return vars
}

// envValue parses a value that may go on in the rest of its file, and returns how many further lines it takes.
func envValue(text, rest string, lookup func(string) (string, bool)) (value string, lines int, err error) {
	if quoted, lines, ok := quotedValue(text, rest); ok {
		value, err = quoted.expand(lookup)
		return value, lines, err
	}
	if last := len(text) - 1; last > 0 && text[0] == text[last] && (text[0] == '\'' || text[0] == '"') { // as in 'it's'
		return text[1:last], 0, nil
	}
	if i := strings.Index(text, " #"); i >= 0 {
		text = strings.TrimRight(text[:i], " \t")
	}
	return text, 0, nil
}
