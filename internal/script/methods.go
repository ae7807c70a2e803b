package script

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// methods has the methods that scripts may use, by the type of their receiver. A method that
// is not listed does not exist for scripts.
var methods = map[string]map[string]charge{
	"string": {
		"capitalize": copies, "lower": copies, "upper": copies, "title": copies,
		"count": scan, "find": scan, "index": scan, "rfind": scan, "rindex": scan, "startswith": scan, "endswith": scan,
		"isalnum": scan, "isalpha": scan, "isdigit": scan, "islower": scan, "isspace": scan, "istitle": scan, "isupper": scan,
		"partition": scan, "rpartition": scan, "removeprefix": scan, "removesuffix": scan, "strip": scan, "lstrip": scan, "rstrip": scan,
		"split": split, "rsplit": split, "splitlines": split,
		"join": join, "format": format, "replace": replace,
		"elems": nil, "elem_ords": nil, "codepoints": nil, "codepoint_ords": nil,
	},
	"bytes": {"elems": nil},
	"list": {
		"append": element(slotSize + 64), "insert": element(slotSize + 64), "clear": nil, "pop": element(0),
		"index": find, "remove": find, "extend": iterate(2 * slotSize),
	},
	"dict": {
		"get": lookup(0), "pop": lookup(0), "setdefault": lookup(entrySize), "popitem": nil, "clear": nil,
		"items": copyOf, "keys": copyOf, "values": copyOf, "update": iterateTree(entrySize),
	},
	"set": {
		"add": lookup(entrySize), "discard": lookup(0), "remove": lookup(0), "pop": nil, "clear": nil,
		"difference": combine, "intersection": combine, "issubset": combine, "issuperset": combine,
		"symmetric_difference": combine, "union": combine, "update": iterateTree(entrySize),
	},
}

// attr returns x.name: a method, or a member of a module or record.
func (r *Run) attr(x starlark.Value, name string) (starlark.Value, error) {
	switch x := x.(type) {
	case *record:
		if v, _ := x.Attr(name); v != nil {
			return v, nil
		}
		return nil, fmt.Errorf("a result has no .%s. It has .%s", name, strings.Join(x.names, ", ."))
	case *starlarkstruct.Module:
		if v := x.Members[name]; v != nil {
			return v, nil
		}
		return nil, fmt.Errorf("%s has no .%s. It has .%s", x.Name, name, strings.Join(x.Members.Keys(), ", ."))
	}
	known := methods[x.Type()]
	if _, ok := known[name]; !ok {
		return nil, noMethod(x, name, known)
	}
	bound, err := x.(starlark.HasAttrs).Attr(name)
	if err != nil {
		return nil, err
	}
	return &method{r, bound.(*starlark.Builtin)}, nil
}

func noMethod(x starlark.Value, name string, known map[string]charge) error {
	if d, ok := x.(*starlark.Dict); ok {
		if _, found, _ := d.Get(starlark.String(name)); found {
			return fmt.Errorf(`dict has no method .%s. Read the entry with x["%s"]`, name, name)
		}
	}
	if len(known) == 0 {
		return fmt.Errorf("%s has no methods, so .%s cannot be called", x.Type(), clip(name, 60))
	}
	names := make([]string, 0, len(known))
	for n := range known {
		names = append(names, n)
	}
	sort.Strings(names)
	return fmt.Errorf("%s has no .%s. Its methods are %s", x.Type(), clip(name, 60), strings.Join(names, ", "))
}

// method is a method of a value, which charges its cost when it is called.
type method struct {
	run   *Run
	bound *starlark.Builtin
}

// These methods implement starlark.Callable.
func (m *method) Name() string          { return m.bound.Name() }
func (m *method) String() string        { return m.bound.String() }
func (m *method) Type() string          { return "builtin_function_or_method" }
func (m *method) Freeze()               {}
func (m *method) Truth() starlark.Bool  { return true }
func (m *method) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable type: method") }

// CallInternal implements starlark.Callable.
func (m *method) CallInternal(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return m.run.method(m.bound, args, kwargs)
}

// method calls a method of the interpreter.
func (r *Run) method(bound *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v := bound.Receiver()
	return r.charged(bound, methods[v.Type()][bound.Name()], v, args, kwargs)
}

// copies charges a text of the same length, in which each character may take more bytes.
func copies(r *Run, v starlark.Value, _ starlark.Tuple, _ []starlark.Tuple) error {
	n := textSize(v)
	r.work(2 * n)
	return r.fits(3 * int64(n))
}

// split charges the parts of a text.
func split(r *Run, v starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
	s := string(v.(starlark.String))
	if err := scan(r, v, args, kwargs); err != nil {
		return err
	}
	n := strings.Count(s, "\n") + strings.Count(s, "\r") // splitlines, and white space
	if len(args) > 0 || len(kwargs) > 0 {
		sep := ""
		for _, a := range allOf(args, kwargs) {
			if t, ok := a.(starlark.String); ok {
				sep = string(t)
			}
		}
		if sep != "" {
			n = strings.Count(s, sep)
		} else {
			n = words(s)
		}
	} else {
		n = max(n, words(s))
	}
	return r.alloc(int64(n+1) * (slotSize + 64))
}

// allOf returns the values of all arguments.
func allOf(args starlark.Tuple, kwargs []starlark.Tuple) starlark.Tuple {
	if len(kwargs) == 0 {
		return args
	}
	values := append(starlark.Tuple(nil), args...)
	for _, kv := range kwargs {
		values = append(values, kv[1])
	}
	return values
}

// words returns the number of words of a text, or more.
func words(s string) int {
	n, inWord := 0, false
	for i := range len(s) {
		c := s[i]
		space := c == ' ' || c >= '\t' && c <= '\r' || c >= utf8.RuneSelf // may be a space
		if !space && !inWord || c >= utf8.RuneSelf {
			n++
		}
		inWord = !space
	}
	return n
}

// join charges s.join(parts).
func join(r *Run, v starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	if len(args) != 1 {
		return nil // the method says so
	}
	iter := starlark.Iterate(args[0])
	if iter == nil {
		return nil
	}
	defer iter.Done()
	n, err := r.length(args[0])
	if err == nil {
		err = r.steps(n)
	}
	if err != nil {
		return err
	}
	sep, size := int64(textSize(v)), int64(0)
	for e := starlark.Value(nil); iter.Next(&e); {
		size += sep + int64(textSize(e))
		if err := r.fits(2 * size); err != nil { // a text that grows has room to spare
			return err
		}
	}
	r.work(int(size))
	return nil
}

// format charges s.format(args). A field may name an argument again.
func format(r *Run, v starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
	s := string(v.(starlark.String))
	var longest int64
	for _, a := range allOf(args, kwargs) {
		n, err := r.tree(a)
		if err != nil {
			return err
		}
		longest = max(longest, n)
	}
	n := int64(len(s)) + quoted*longest*int64(strings.Count(s, "{"))
	r.work(int(min(n, MaxMemory)))
	return r.fits(2 * n)
}

// replace charges s.replace(old, new).
func replace(r *Run, v starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	if len(args) < 2 {
		return nil
	}
	s, old, with := textSize(v), args[0], args[1]
	n := int64(s)
	if o, ok := old.(starlark.String); ok {
		n += int64(strings.Count(string(v.(starlark.String)), string(o))) * int64(textSize(with))
	}
	r.work(s + int(min(n, MaxMemory)))
	return r.fits(n)
}

// element charges size bytes for an element, and the move of the others if it is not the
// last one.
func element(size int64) charge {
	return func(r *Run, v starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
		if len(args) > 1 || size == 0 && len(args) > 0 {
			r.work(2 * starlark.Len(v))
		}
		return r.alloc(size)
	}
}

// find charges the comparison of an element with all others.
func find(r *Run, v starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	for _, a := range args {
		if err := r.contains(a, v); err != nil {
			return err
		}
	}
	return nil
}

// lookup charges a key, and size bytes.
func lookup(size int64) charge {
	return func(r *Run, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
		if len(args) > 0 {
			if err := r.key(args[0]); err != nil {
				return err
			}
		}
		return r.alloc(size)
	}
}

// copyOf charges the list of the keys, values or entries of a dict.
func copyOf(r *Run, v starlark.Value, _ starlark.Tuple, _ []starlark.Tuple) error {
	n := starlark.Len(v)
	r.work(64 * n / treeNodes)
	return r.alloc(int64(n) * (slotSize + listSize))
}

// combine charges an operation on a set and other iterables.
func combine(r *Run, v starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
	if err := r.alloc(2 * sizeOf(v)); err != nil {
		return err
	}
	return iterateTree(entrySize)(r, v, append(args[:len(args):len(args)], v), kwargs)
}
