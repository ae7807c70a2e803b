package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Setting is one key of a configuration with its value, for people.
type Setting struct {
	Path    string // upstreams.files.timeout; [0] for the first element of a list
	Value   string // as a user may write it; secrets are [redacted]
	Default bool   // the value is that of a configuration without the key
}

// Settings returns all keys that have a value, in the order of the schema. It contains no [Secret], no value in the
// query of a URL, and no argument of a program whose flag or variable has the name of a secret. Other texts may be
// secret anyway: mask them by [Config.Secrets].
func (c *Config) Settings() []Setting {
	var w settingsWriter
	zero := reflect.New(reflect.TypeFor[Config]()).Elem()
	setDefaults(zero)
	w.fields("", reflect.ValueOf(c).Elem(), zero)
	for _, u := range c.Upstreams {
		w.element("upstreams."+u.Name, reflect.ValueOf(u))
	}
	return w.all
}

type settingsWriter struct{ all []Setting }

// fields writes the keys of a mapping. zero has their defaults.
func (w *settingsWriter) fields(path string, v, zero reflect.Value) {
	for _, f := range shapeOf(v.Type()).fields {
		at := f.name
		if path != "" {
			at = path + "." + f.name
		}
		w.value(at, f, v.FieldByIndex(f.index), zero.FieldByIndex(f.index))
	}
}

// element writes an element of a list, or of a mapping of names.
func (w *settingsWriter) element(path string, v reflect.Value) {
	zero := reflect.New(v.Type()).Elem()
	setDefaults(zero)
	w.fields(path, v, zero)
}

func (w *settingsWriter) value(path string, f *field, v, zero reflect.Value) {
	switch {
	case f.isStruct():
		w.fields(path, v, zero)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && v.Type().Elem() != reflect.TypeFor[Secret]():
		for i := range v.Len() {
			at := fmt.Sprintf("%s[%d]", path, i)
			if name := v.Index(i).FieldByName("Name"); f.keyed && name.IsValid() && name.Kind() == reflect.String {
				at = path + "." + name.String()
			}
			w.element(at, v.Index(i))
		}
	case v.Kind() == reflect.Map:
		names := make([]string, 0, v.Len())
		for _, key := range v.MapKeys() {
			names = append(names, key.String())
		}
		slices.Sort(names)
		for _, name := range names {
			text := shown(f, v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())))
			w.all = append(w.all, Setting{Path: path + "." + name, Value: text})
		}
	default:
		if text := shown(f, v); text != "" {
			w.all = append(w.all, Setting{path, text, text == shown(f, zero)})
		}
	}
}

// shown returns a value as a user may write it, "" for none.
func shown(f *field, v reflect.Value) string {
	switch value := v.Interface().(type) {
	case Secret:
		if value.IsZero() {
			return ""
		}
		return redacted
	case time.Duration:
		return value.String()
	}
	switch v.Kind() {
	case reflect.Slice:
		texts := make([]string, v.Len())
		for i := range texts {
			if texts[i] = shown(f, v.Index(i)); i > 0 && f.name == "args" && isSecretFlag(v.Index(i-1).String()) {
				texts[i] = redacted
			}
		}
		if len(texts) == 0 {
			return ""
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return ""
		}
		return shown(f, v.Elem())
	case reflect.Map, reflect.Struct: // none of today's keys; a later one is not shown by mistake
		return redacted
	}
	text := fmt.Sprint(v.Interface())
	switch name, _, assigned := strings.Cut(text, "="); {
	case strings.Contains(text, "://"):
		return RedactURL(text)
	case f.name == "args" && assigned && IsSecretName(strings.TrimLeft(name, "-")):
		return name + "=" + redacted
	}
	return text
}

// isSecretFlag reports whether the argument after this one is a secret by the name of this one.
func isSecretFlag(arg string) bool {
	return strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") && IsSecretName(strings.TrimLeft(arg, "-"))
}
