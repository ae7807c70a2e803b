package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"mcpgateway/internal/configfile"
)

// maxExpansion bounds the bytes that all ${…} of a file expand to, and that its
// environment files have.
const maxExpansion = 16 << 20

// expander replaces in scalars:
//
//	${NAME}, ${env:NAME}    the environment variable; an error if it is not set
//	${NAME:-default}        the default if it is not set or empty
//	${file:PATH}            the content of a file, without one newline at its end
//	${input:ID}             what VS Code asks its user for: here the variable of that name
//	$${                     the characters ${
//
// What was put in is not looked at again.
type expander struct {
	src source
	*expanded
}

// expanded is what the ${…} of a configuration and its rule files stood for.
type expanded struct {
	left int // bytes that may still be put in
	put  []put
}

func newExpander(src source) expander { return expander{src, &expanded{left: maxExpansion}} }

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces what stands in a scalar, and tells whether there was
// anything. Its errors contain nothing that was put in.
func (x *expander) expand(text string) (result string, expanded bool, err error) {
	if !strings.Contains(text, "${") {
		return text, false, nil
	}
	var b strings.Builder
	var missing []string
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), expanded, unset(missing)
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
			missing = append(missing, string(e)) // there may be more of them
		} else if err != nil {
			return "", false, err
		}
		if err := x.take(len(value)); err != nil {
			return "", false, err
		}
		b.WriteString(before + value)
		text, expanded = after, true
	}
}

// take takes bytes of what may still be put in.
func (x *expander) take(n int) error {
	if n > x.left {
		return fmt.Errorf("what this file refers to is larger than %v altogether", Size(maxExpansion))
	}
	x.left -= n
	return nil
}

// lookup is what stands for the inside of one ${…}.
func (x *expander) lookup(ref string) (string, error) {
	if strings.Contains(ref, "${") {
		return "", errors.New("has one ${…} inside another, which is not supported")
	}
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		value, err := x.content(path)
		x.note("", value)
		return value, err
	}
	if id, ok := strings.CutPrefix(ref, "input:"); ok {
		value, err := x.input(id)
		x.note(InputVariable(id), value)
		return value, err
	}
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(ref, "env:"), ":-")
	if !variable.MatchString(name) {
		// What is in it is not shown: it may be part of a password.
		return "", errors.New("has a ${…} that is none of ${NAME}, ${NAME:-default} and ${file:PATH}; write $${ for the characters ${")
	}
	value, set := x.src.env(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set:
		return "", unsetError(name)
	}
	x.note(name, value)
	return value, nil
}

// note keeps what is put in, for [Config.Secrets].
func (x *expander) note(name, value string) {
	if len(value) >= leastSecret {
		x.put = append(x.put, put{name, NewSecret(value)})
	}
}

// unsetError is the name of an environment variable that is not set.
type unsetError string

func (e unsetError) Error() string {
	return fmt.Sprintf("the environment variable %s is not set; set it, or write ${%s:-default}", string(e), string(e))
}

// unset is the fault of a scalar that refers to variables which are not set, nil
// if there are none.
func unset(names []string) error {
	switch len(names) {
	case 0:
		return nil
	case 1:
		return unsetError(names[0])
	}
	n := len(names) - 1
	return fmt.Errorf("the environment variables %s and %s are not set; set them, or write ${%s:-default}",
		strings.Join(names[:n], ", "), names[n], names[0])
}

func (x *expander) content(path string) (string, error) {
	if path == "" {
		return "", errors.New("${file:} lacks the path of a file")
	}
	data, err := x.src.read(inFolder(x.src.dir, path))
	if err != nil {
		return "", fmt.Errorf("${file:%s} cannot be read: %w", path, configfile.Reason(err))
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

func (x *expander) input(id string) (string, error) {
	name := InputVariable(id)
	value, set := x.src.env(name)
	if !set {
		return "", fmt.Errorf("%s is asked for by the host; here it is the environment variable %s, which is not set", configfile.Quote("${input:"+id+"}"), name)
	}
	return value, nil
}

// InputVariable is the environment variable that stands for an input of VS Code.
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
