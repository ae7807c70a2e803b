package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// UnsetVariable is a variable that a file refers to and that is not set, or a file that cannot be used: one of ${file:PATH},
// an envFile, or for those who have read them a file of ca or client_cert.
type UnsetVariable struct {
	Name  string // "" for a file
	Input string // the id of the host's input that the variable stands for; "" for others
	Key   string // of the upstream, such as env; it has the value
	Entry string // the name of the value in env or headers, which have no entry of this name; "" for other keys
	// Place is the value that refers to the variable or names the file, or a line of an envFile. Its message says how to set
	// the variable, or what is wrong with the file.
	Place Error

	known Secret // see Known
	by    string // the variable of env_file whose value refers to this one, "" for none
	none  bool   // whether the configuration names no env_file
	file  string // why the file of ${file:PATH} cannot be read, "" for a variable
}

// Known is the value of the entry as far as it is known, with ${NAME} for each variable that is not set. It is not among
// [Config.Secrets], since messages say which variables are missing.
func (v UnsetVariable) Known() Secret { return v.known }

// unsetError is the error of a scalar that refers to variables that are not set, or to files that cannot be read.
type unsetError []UnsetVariable

func (e unsetError) Error() string {
	if at := slices.IndexFunc(e, func(v UnsetVariable) bool { return v.file != "" }); at >= 0 {
		return e[at].file
	}
	file := "env_file"
	if e[0].none {
		file += " (this configuration names none)"
	}
	if e[0].Input != "" {
		return fmt.Sprintf("the host asks its user for %s; here the environment variable %s must be set, before the gateway starts or in %s",
			configfile.Quote("${input:"+e[0].Input+"}"), e[0].Name, file)
	}
	var names []string
	for _, v := range e {
		name := v.Name
		if v.by != "" {
			name += fmt.Sprintf(" (to which %s in env_file refers)", v.by)
		}
		names = append(names, name)
	}
	set := "before the gateway starts, or in " + file + ", or write ${" + e[0].Name + ":-default}"
	if len(e) == 1 {
		return fmt.Sprintf("the environment variable %s is not set; set it %s", names[0], set)
	}
	last := len(e) - 1
	return fmt.Sprintf("the environment variables %s and %s are not set; set them %s", strings.Join(names[:last], ", "), names[last], set)
}

// of returns what a variable of env_file lacks. A variable that it refers to may have lacked it already.
func (e unsetError) of(name string) unsetError {
	e = slices.Clone(e)
	for i := range e {
		e[i].by = cmp.Or(e[i].by, name)
	}
	return e
}

// inUpstream reports whether a key concerns one upstream alone. An unset variable or unreadable file then takes down this
// upstream, whose items nobody can use. Every other key may be about access, so its variable must be set; a prefix is one
// of them, since rules name items by it.
func inUpstream(p configfile.Path) bool {
	return strings.HasPrefix(p.Pattern, "upstreams.*.") && p.Pattern != "upstreams.*.prefix"
}

// leaveUnset records the variables and files that a value of an upstream lacks. The value becomes the text of the file if that has a
// valid form, so that the checks of the upstream find it present; else it keeps its default. A secret becomes text, which is the
// value as far as it is known: other values may be shown.
func (d *decoder) leaveUnset(n *yaml.Node, p configfile.Path, f *field, v reflect.Value, text string, missing unsetError) {
	for _, variable := range missing {
		variable.Key, _, _ = strings.Cut(strings.TrimPrefix(p.Pattern, "upstreams.*."), ".")
		variable.Key = strings.TrimSuffix(variable.Key, "[]")
		msg := unsetError{variable}.Error()
		if d.hosts && slices.Contains(editorVariables, variable.Name) {
			msg = fmt.Sprintf("only hosts know ${%s}; %s", variable.Name, makeOne)
		}
		variable.Place = Error{File: d.file, Line: n.Line, Col: n.Column, Path: p.Text, Msg: msg}
		*d.unset = append(*d.unset, variable)
	}
	switch {
	case f.typ == reflect.TypeFor[Secret]():
		_ = f.set(v, text)
	case f.typ.Kind() == reflect.String:
		_ = f.set(v, n.Value)
	}
}

// leaveUnread records an envFile that cannot be read: the upstream lacks its variables.
func (e *entry) leaveUnread(m *mapping, reason error) {
	at := m.placeError("envFile")
	at.Msg = reason.Error()
	e.leaveEnvFile(m, at)
}

// leaveEnvFile records why an envFile cannot be used.
func (e *entry) leaveEnvFile(m *mapping, reason Error) {
	_, p := m.place("envFile")
	reason.Path = p.Text
	e.Unset = append(e.Unset, UnsetVariable{Key: "envFile", Place: reason})
}

// takeUnset returns the variables that the upstream lacks, each once for each of its values.
func (d *decoder) takeUnset() []UnsetVariable {
	taken := *d.unset
	*d.unset = nil
	return slices.Compact(taken)
}

// lacks reports whether a key of the upstream refers to variables that are not set.
func (u *Upstream) lacks(key string) bool {
	return slices.ContainsFunc(u.Unset, func(v UnsetVariable) bool { return strings.HasSuffix(v.Place.Path, "."+key) })
}

// UnsetError says which variables and files an upstream lacks, where, and what would be right; nil if it lacks none.
func (u Upstream) UnsetError() error {
	var errs Errors
	for _, v := range u.Unset {
		errs = append(errs, &v.Place)
	}
	if errs == nil {
		return nil
	}
	return errs
}
