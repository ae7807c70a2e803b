package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"mcpgateway/internal/configfile"
)

// maxExpansion bounds the bytes of all expansions and environment files of a configuration.
const maxExpansion = 16 << 20

// expander replaces in scalars:
//
//	${NAME}, ${env:NAME}    the environment variable, or the variable of env_file; see unset.go if neither is set
//	${NAME:-default}        the default if it is not set or empty
//	${file:PATH}            the content of a file, without one newline at its end; see unset.go if it cannot be read
//	${input:ID}             an input of VS Code; here the environment variable of that name
//	$${                     the characters ${
//
// It does not expand the result again.
type expander struct {
	src source
	*expanded
}

// expanded are the expansions of a configuration and its rule files.
type expanded struct {
	left   int // bytes that may still be expanded
	done   []expansion
	empty  []string               // the references without a default in the last scalar whose values are empty
	lacked map[string]lackedValue // of env_file, the variables whose values refer to variables that are not set
	file   bool                   // whether there is an env_file
}

// lackedValue is a value that lacks variables: its text as far as it is known, and what is missing.
type lackedValue struct {
	text    string
	missing unsetError
}

func newExpander(src source) expander {
	return expander{src, &expanded{left: maxExpansion, lacked: make(map[string]lackedValue)}}
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand expands a scalar, and reports whether it contains a ${…}. With an unsetError, the result is the value as far as it is
// known. Errors contain no expanded value.
func (x *expander) expand(text string) (result string, expanded bool, err error) {
	x.empty = nil
	if !strings.Contains(text, "${") {
		return text, false, nil
	}
	var b strings.Builder
	var missing unsetError
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			if missing != nil {
				return b.String(), false, missing
			}
			return b.String(), expanded, nil
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(escaped + "${")
			text = rest
			continue
		}
		ref, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", false, errors.New("has a ${ without its }; write $${ for the characters ${")
		}
		value, err := x.lookup(ref)
		if e, ok := errors.AsType[unsetError](err); ok {
			missing = append(missing, e...) // look for further ones
		} else if err != nil {
			return "", false, err
		}
		if value == "" && !strings.Contains(ref, ":-") {
			x.empty = append(x.empty, "${"+ref+"}")
		}
		if err := x.take(len(value)); err != nil {
			return "", false, err
		}
		b.WriteString(before + value)
		text, expanded = after, true
	}
}

// errNoReference is the error of a ${…} in no known form.
var errNoReference = errors.New("has a ${…} that is none of ${NAME}, ${NAME:-default} and ${file:PATH}; write $${ for the characters ${")

// take subtracts bytes from the bound.
func (x *expander) take(n int) error {
	if n > x.left {
		return fmt.Errorf("the variables and files that this file refers to are larger than %v together", Size(maxExpansion))
	}
	x.left -= n
	return nil
}

// lookup returns the value of one ${…}, given its inside.
func (x *expander) lookup(ref string) (string, error) {
	if strings.Contains(ref, "${") {
		return "", errors.New("has a ${…} inside another, which is not supported")
	}
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		value, err := x.content(path)
		if err != nil {
			return "${" + ref + "}", err
		}
		x.note("", value)
		return value, nil
	}
	if id, ok := strings.CutPrefix(ref, "input:"); ok {
		value, err := x.input(id)
		if err == nil {
			x.note(InputVariable(id), value)
		}
		return value, err
	}
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(ref, "env:"), ":-")
	if !variable.MatchString(name) {
		// The text is not shown, since it may be part of a password.
		return "", errNoReference
	}
	value, set := x.src.env(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set:
		return x.unset(UnsetVariable{Name: name})
	}
	x.note(name, value)
	return value, nil
}

// note records a value for [Config.Secrets].
func (x *expander) note(name, value string) {
	if len(value) >= minSecret {
		x.done = append(x.done, expansion{name, NewSecret(value)})
	}
}

func (x *expander) content(path string) (string, error) {
	if path == "" {
		return "", errors.New("${file:} needs the path of a file")
	}
	data, err := x.src.read(inFolder(x.src.dir, path))
	if err != nil {
		return "", unsetError{{file: fmt.Sprintf("${file:%s} cannot be read: %v", path, configfile.Reason(err))}}
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

func (x *expander) input(id string) (string, error) {
	name := InputVariable(id)
	value, set := x.src.env(name)
	if !set {
		return x.unset(UnsetVariable{Name: name, Input: id})
	}
	return value, nil
}

// unset returns what is known of a variable that is not set: the text of its value in env_file, or a reference to the variable. The
// error names the variables that are missing.
func (x *expander) unset(v UnsetVariable) (text string, err error) {
	if lacked, ok := x.lacked[v.Name]; ok {
		return lacked.text, lacked.missing
	}
	v.none = !x.file
	return "${" + v.Name + "}", unsetError{v}
}

// InputVariable is the name of the environment variable for an input of VS Code.
func InputVariable(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, id)
	if name == "" || name[0] <= '9' {
		return "_" + name
	}
	return name
}
