package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

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
	d.vars.file = true
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
	vars, errs := parseEnvFile(file, data, &d.vars)
	d.Errors = append(d.Errors, errs...)
	environment := d.env
	d.vars.src.env = func(name string) (string, bool) {
		if value, ok := environment(name); ok {
			return value, true
		}
		value, ok := vars[name]
		return value.Reveal(), ok
	}
}

// mergeEnvFile adds the variables of envFile that env does not set. A file that cannot be read, or has a malformed line,
// takes down this upstream alone, as a variable that is not set does: hosts name files of projects that come and go.
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
	vars, errs := parseEnvFile(e.EnvFile, data, nil)
	for _, err := range errs {
		e.leaveEnvFile(m, *err)
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if _, own := e.Env[name]; !own {
			e.FileEnv = append(e.FileEnv, name)
		}
	}
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
// A quote at the beginning of a value that is not closed is an error: else it would silently become part of a secret.
// With x, "…${NAME}…" contains the value of a variable of the environment or of an earlier line. A variable that refers to
// one that is not set is not set either, and x knows why. Errors have the name of the file.
func parseEnvFile(file string, data []byte, x *expander) (vars map[string]Secret, errs Errors) {
	vars = make(map[string]Secret)
	var known func(string) (string, error)
	if x != nil {
		known = func(name string) (string, error) {
			if value, ok := x.src.env(name); ok {
				return value, nil
			}
			if value, ok := vars[name]; ok {
				return value.Reveal(), nil
			}
			return x.unset(UnsetVariable{Name: name})
		}
	}
	rest := strings.TrimPrefix(string(data), "\ufeff")
	for line := 1; rest != ""; line++ {
		var raw string
		raw, rest, _ = strings.Cut(rest, "\n")
		text := strings.TrimSpace(raw)
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(text, "export "), "=")
		name = strings.TrimSpace(name)
		value, lines, missing, unclosed := envValue(strings.TrimSpace(value), rest, known)
		err := errors.New("must be NAME=value")
		if ok {
			err = envEntry(name, value)
		}
		if err == nil && unclosed != nil { // the variable counts as set, so that this remains the only error about it
			errs = append(errs, &Error{File: file, Line: line, Col: valueColumn(raw), Msg: fmt.Sprintf("the value of %s %v", name, unclosed)})
		}
		switch {
		case err != nil:
			errs = append(errs, &Error{File: file, Line: line, Col: 1, Msg: err.Error()})
		case missing != nil:
			delete(vars, name)
			x.lacked[name] = lackedValue{value, missing.of(name)}
		default:
			vars[name] = NewSecret(value)
			if x != nil {
				delete(x.lacked, name)
			}
		}
		for range lines {
			_, rest, _ = strings.Cut(rest, "\n")
		}
		line += lines
	}
	return vars, errs
}

// valueColumn is the column in which the value of a line NAME=value begins.
func valueColumn(line string) int {
	before, value, _ := strings.Cut(line, "=")
	return len(before) + len("=") + len(value) - len(strings.TrimLeftFunc(value, unicode.IsSpace)) + 1
}

// envValue parses a value that may go on in the rest of its file, and returns how many further lines it takes, and which
// variables it lacks. The error is errUnclosed; the value is then the text as it stands.
func envValue(text, rest string, lookup func(string) (string, error)) (value string, lines int, missing unsetError, err error) {
	quoted, lines, err := quotedValue(text, rest)
	if err == nil {
		value, missing = quoted.expand(lookup)
		return value, lines, missing, nil
	}
	if last := len(text) - 1; last > 0 && text[0] == text[last] && (text[0] == '\'' || text[0] == '"') { // as in 'it's'
		return text[1:last], 0, nil, nil
	}
	if i := strings.Index(text, " #"); i >= 0 {
		text = strings.TrimRight(text[:i], " \t")
	}
	// Without the rest, since an apostrophe in a comment or in a later line closes nothing.
	if _, _, err := quotedValue(text, ""); errors.Is(err, errUnclosed) {
		return text, 0, nil, err
	}
	return text, 0, nil, nil
}
