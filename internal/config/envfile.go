package config

import (
	"errors"
	"strings"
)

// readEnvFile parses lines of NAME=value, as editors do. It skips blank lines and lines that begin with
// #. export before a name is allowed. A value may be in quotes ("…" with \n, \" and \\; '…' without
// escapes); # after a space ends a value without quotes. Errors have the name of that file.
func (d *decoder) readEnvFile(file string, data []byte) map[string]Secret {
	vars := make(map[string]Secret)
	for i, line := range strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name = strings.TrimSpace(name)
		err := envEntry(name, value)
		if !ok {
			err = errors.New("must be NAME=value")
		}
		if err != nil {
			d.Errors = append(d.Errors, &Error{File: file, Line: i + 1, Col: 1, Msg: err.Error()})
			continue
		}
		vars[name] = NewSecret(unquoteEnv(strings.TrimSpace(value)))
	}
	return vars
}

func unquoteEnv(value string) string {
	if len(value) >= 2 && value[0] == value[len(value)-1] {
		inside := value[1 : len(value)-1]
		switch value[0] {
		case '\'':
			return inside
		case '"':
			return strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\\`, `\`).Replace(inside)
		}
	}
	if i := strings.Index(value, " #"); i >= 0 {
		value = strings.TrimRight(value[:i], " \t")
	}
	return value
}
