package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/configfile"
)

// Key is one key of the configuration, for the reference.
type Key struct {
	Path    string   // upstreams.*.tools.allow; * stands for a name, [] for an element of a list
	Aliases []string // other spellings of the last part
	Type    string   // in words: duration, list of strings, auto | legacy
	Default string   // as a user writes it; empty for none
	Min     string   // as a user writes it; empty for none
	Max     string
	Doc     string // one line
	Reload  bool   // a running gateway applies a change; else it needs a restart
	// Reconnect says that a change opens a new connection to the upstream.
	Reconnect bool
}

// Keys returns all accepted keys in the order of the schema.
func Keys() []Key { return keysOf(reflect.TypeFor[document](), Key{}) }

// keysOf are the keys of a mapping; parent has its path, and what its keys inherit.
func keysOf(t reflect.Type, parent Key) []Key {
	var keys []Key
	for _, f := range shapeOf(t).fields {
		if f.only != "" && !strings.Contains(parent.Path, "."+f.only+".") {
			continue
		}
		key := Key{
			Path: configfile.Join(parent.Path, f.name), Aliases: f.aliases, Type: f.words(), Default: f.def, Min: f.min, Max: f.max, Doc: f.doc,
			Reload: parent.Reload || f.reload, Reconnect: parent.Reconnect || f.connection,
		}
		if f.like != "" {
			key.Type += ", as in " + f.like
		}
		keys = append(keys, key)
		switch {
		case f.like != "":
		case f.keyed:
			key.Path += ".*"
			keys = append(keys, keysOf(f.typ.Elem(), key)...)
		case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Struct:
			key.Path += "[]"
			keys = append(keys, keysOf(f.typ.Elem(), key)...)
		case f.isStruct():
			keys = append(keys, keysOf(f.typ, key)...)
		}
	}
	return keys
}

// field is one key of a mapping, as the tags of a struct declare it.
type field struct {
	name    string
	aliases []string
	index   []int // for reflect.Value.FieldByIndex
	typ     reflect.Type

	def      string
	hasDef   bool
	min, max string   // in the form of a value; empty: unbounded
	enum     []string // empty: any value
	format   string
	keyed    bool   // a slice, written as a mapping of names
	listed   bool   // a plain list in place of the mapping is the value of this key
	single   bool   // a list of one value may be written as that value
	short    bool   // a scalar in place of the mapping is the value of this key
	like     string // the path of a key whose values have the same keys, which the reference then leaves out
	only     string // the part of the path below which the key has a meaning; empty: any
	blank    bool   // the empty string is the same as no value
	doc      string

	reload     bool // a running gateway applies a change of it
	connection bool // of Connection
}

// isStruct reports whether the field is written as a mapping with known keys.
func (f *field) isStruct() bool {
	return f.typ.Kind() == reflect.Struct && f.typ != reflect.TypeFor[Secret]()
}

// words describes the type of the field.
func (f *field) words() string {
	switch {
	case f.single && len(f.enum) > 0:
		return strings.Join(f.enum, " | ") + ", or a list of them"
	case f.single:
		return typeWords(f.typ.Elem()) + ", or a list of them"
	case len(f.enum) > 0 && f.typ.Kind() == reflect.Slice:
		return "list of " + strings.Join(f.enum, " | ")
	case len(f.enum) > 0:
		return strings.Join(slices.DeleteFunc(slices.Clone(f.enum), func(s string) bool { return s == "" }), " | ")
	case f.keyed || f.isStruct():
		return "mapping"
	}
	return typeWords(f.typ)
}

func typeWords(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[time.Duration]():
		return "duration"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeWords(t.Elem())
	case reflect.Slice:
		return "list of " + typeWords(t.Elem()) + "s"
	case reflect.Map:
		return "mapping of names to " + typeWords(t.Elem()) + "s"
	case reflect.Bool:
		return "true | false"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Struct:
		return "mapping"
	}
	return "string"
}

// shape are the keys that a struct declares.
type shape struct {
	fields []*field
	byName map[string]*field // aliases included
}

var shapes sync.Map // reflect.Type → *shape; a cache of what the types declare

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := &shape{byName: make(map[string]*field)}
	s.add(t, nil, false)
	shapes.Store(t, s)
	return s
}

func (s *shape) add(t reflect.Type, index []int, connection bool) {
	connection = connection || t == reflect.TypeFor[Connection]()
	for i := range t.NumField() {
		sf := t.Field(i)
		name, option, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		at := append(slices.Clone(index), i)
		if option == "inline" {
			s.add(sf.Type, at, connection)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		f := &field{
			name: name, index: at, typ: sf.Type,
			aliases: split(sf.Tag.Get("alias")),
			min:     sf.Tag.Get("min"), max: sf.Tag.Get("max"),
			like: sf.Tag.Get("like"), only: sf.Tag.Get("only"),
			enum:   split(sf.Tag.Get("enum")),
			format: sf.Tag.Get("format"), doc: sf.Tag.Get("doc"),
			keyed: sf.Tag.Get("keyed") != "", short: sf.Tag.Get("short") != "", single: sf.Tag.Get("single") != "", listed: sf.Tag.Get("listed") != "",
			blank: sf.Tag.Get("blank") != "", reload: sf.Tag.Get("reload") != "", connection: connection,
		}
		f.def, f.hasDef = sf.Tag.Lookup("default")
		s.fields = append(s.fields, f)
		for _, n := range append([]string{name}, f.aliases...) {
			s.byName[n] = f
		}
	}
}

func split(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, "|")
}

// setDefaults sets the defaults of a zero struct of the schema. It panics if a default is invalid, since
// the schema is part of the program.
func setDefaults(v reflect.Value) {
	for _, f := range shapeOf(v.Type()).fields {
		fv := v.FieldByIndex(f.index)
		switch {
		case f.isStruct():
			setDefaults(fv)
		case !f.hasDef:
		case f.typ.Kind() == reflect.Slice:
			fv.Set(reflect.MakeSlice(f.typ, 1, 1))
			fv.Index(0).SetString(f.def)
		default:
			if err := f.set(fv, f.def); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", f.name, err))
			}
		}
	}
}
