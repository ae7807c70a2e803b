package script

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"mcpgateway/internal/wire"
)

// record is a value with named members: the result of try_call. A script reads them as
// r.ok or r["ok"].
type record struct {
	names  []string
	values []starlark.Value
}

// These methods implement starlark.Mapping and starlark.HasAttrs.
func (r *record) String() string {
	var b strings.Builder
	b.WriteString("result(")
	for i, name := range r.names {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s = %s", name, r.values[i])
	}
	b.WriteByte(')')
	return b.String()
}
func (r *record) Type() string          { return "result" }
func (r *record) Freeze()               {} // a value of one thread is never frozen
func (r *record) Truth() starlark.Bool  { return r.values[0].Truth() }
func (r *record) Hash() (uint32, error) { return 0, errors.New("unhashable type: result") }
func (r *record) AttrNames() []string   { return slices.Clone(r.names) }
func (r *record) Attr(name string) (starlark.Value, error) {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.values[i], nil
	}
	return nil, nil
}
func (r *record) Get(k starlark.Value) (starlark.Value, bool, error) {
	name, _ := starlark.AsString(k)
	v, err := r.Attr(name)
	return v, v != nil, err
}

// value returns the value of JSON, and charges it. Objects become dicts in their order,
// arrays lists, numbers without fraction and exponent integers.
func (r *Run) value(v wire.Value) (starlark.Value, error) {
	if err := r.alloc(int64(len(v.Raw()))); err != nil {
		return nil, err
	}
	return r.decode(v, 0)
}

func (r *Run) decode(v wire.Value, depth int) (starlark.Value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("the JSON is nested over %d levels deep", maxNesting)
	}
	if err := r.steps(1); err != nil {
		return nil, err
	}
	switch v.Kind() {
	case '{':
		d := new(starlark.Dict)
		err := r.alloc(dictSize)
		for m := range v.Members() {
			var e starlark.Value
			if err == nil {
				e, err = r.decode(m.Value, depth+1)
			}
			if err == nil {
				err = r.alloc(entrySize)
			}
			if err != nil {
				return nil, err
			}
			_ = d.SetKey(starlark.String(m.Key.Str()), e) // the dict is new and the key a string
		}
		return d, err
	case '[':
		var list []starlark.Value
		err := r.alloc(listSize)
		for e := range v.Elements() {
			var x starlark.Value
			if err == nil {
				x, err = r.decode(e, depth+1)
			}
			if err == nil {
				err = r.alloc(2 * slotSize)
			}
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		return starlark.NewList(list), err
	case '"':
		return starlark.String(v.Str()), nil
	case '0':
		return number(string(v.Raw()))
	case 't', 'f':
		return starlark.Bool(v.Bool()), nil
	}
	return starlark.None, nil
}

func number(text string) (starlark.Value, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return starlark.MakeInt64(n), nil
		}
		if len(text) > maxBits/4 {
			return nil, errors.New("the JSON has an integer of more than 1000 digits")
		}
		if n, ok := new(big.Int).SetString(text, 10); ok {
			return starlark.MakeBigInt(n), nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("the JSON has the number %s, which is out of range", clip(text, 40))
	}
	return starlark.Float(f), nil
}

// encode appends the JSON of a value, at most limit bytes of it. Keys that are numbers,
// booleans or None become strings, as in Python.
func (r *Run) encode(dst []byte, v starlark.Value, limit int) ([]byte, error) {
	if _, err := r.tree(v); err != nil {
		return dst, err
	}
	e := encoder{dst: dst, most: len(dst) + limit}
	e.value(v)
	return e.dst, e.err
}

var errTooLong = errors.New("the value is too long")

type encoder struct {
	dst   []byte
	most  int
	err   error
	piece []byte
}

func (e *encoder) text(s string) {
	if len(e.dst)+len(s) > e.most && e.err == nil {
		e.err = errTooLong
		s = strings.ToValidUTF8(s[:max(0, e.most-len(e.dst))], "")
	} else if e.err != nil {
		return
	}
	e.dst = append(e.dst, s...)
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// string appends a JSON string, in pieces, since its quoted form may be six times as long.
func (e *encoder) string(s string) {
	e.text(`"`)
	for s != "" && e.err == nil {
		n := min(len(s), 4096)
		for n < len(s) && n > 4096-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		e.piece = wire.AppendString(e.piece[:0], s[:n])
		e.text(string(e.piece[1 : len(e.piece)-1]))
		s = s[n:]
	}
	e.text(`"`)
}

func (e *encoder) value(v starlark.Value) {
	if e.err != nil {
		return
	}
	switch v := v.(type) {
	case starlark.NoneType:
		e.text("null")
	case starlark.Bool:
		e.text(strconv.FormatBool(bool(v)))
	case starlark.Int:
		e.text(v.String())
	case starlark.Float:
		f := float64(v)
		if math.IsInf(f, 0) || math.IsNaN(f) {
			e.fail("JSON has no number %s", v)
			return
		}
		e.text(v.String())
	case starlark.String:
		e.string(string(v))
	case *starlark.Dict:
		e.object(v)
	case *record:
		e.text("{")
		for i, name := range v.names {
			e.member(i, name, v.values[i])
		}
		e.text("}")
	case starlark.Sequence: // list, tuple, set, range
		e.text("[")
		iter := v.Iterate()
		defer iter.Done()
		i := 0
		for x := starlark.Value(nil); e.err == nil && iter.Next(&x); i++ {
			if i > 0 {
				e.text(",")
			}
			e.value(x)
		}
		e.text("]")
	default:
		e.fail("a value of type %s has no JSON form", v.Type())
	}
}

func (e *encoder) object(d *starlark.Dict) {
	e.text("{")
	i := 0
	for k, x := range d.Entries() {
		name, ok := keyText(k)
		if !ok {
			e.fail("the dict has a key of type %s. Keys of JSON objects are strings", k.Type())
			return
		}
		e.member(i, name, x)
		i++
	}
	e.text("}")
}

func (e *encoder) member(i int, name string, v starlark.Value) {
	if i > 0 {
		e.text(",")
	}
	e.string(name)
	e.text(":")
	e.value(v)
}

// keyText returns the name of a member for a key of a dict.
func keyText(k starlark.Value) (string, bool) {
	switch k := k.(type) {
	case starlark.String:
		return string(k), true
	case starlark.Int, starlark.Float:
		return k.String(), true
	case starlark.Bool:
		return strconv.FormatBool(bool(k)), true
	case starlark.NoneType:
		return "null", true
	}
	return "", false
}

// jsonEncode is json.encode. It takes indent as Python does, and ignores it.
func (r *Run) jsonEncode(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v, ignored starlark.Value
	if err := starlark.UnpackArgs("json.encode", args, kwargs, "x", &v, "indent?", &ignored, "sort_keys?", &ignored, "ensure_ascii?", &ignored); err != nil {
		return nil, err
	}
	text, err := r.encode(nil, v, int(r.memory/2))
	if errors.Is(err, errTooLong) {
		err = errMemory
	}
	if err != nil {
		return nil, err
	}
	return r.made(starlark.String(text))
}

// jsonDecode is json.decode. A dict or list is returned as it is, because call has decoded
// it already.
func (r *Run) jsonDecode(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs("json.decode", args, kwargs, "x", &v); err != nil {
		return nil, err
	}
	switch v.(type) {
	case *starlark.Dict, *starlark.List:
		return v, nil
	}
	s, ok := v.(starlark.String)
	if !ok {
		return nil, fmt.Errorf("json.decode: got %s, want string", v.Type())
	}
	r.work(len(s))
	if err := r.alloc(int64(len(s))); err != nil {
		return nil, err
	}
	raw := wire.Raw(s)
	if err := wire.Check(raw, wire.Limits{Depth: maxNesting}, wire.Strict); err != nil {
		return nil, fmt.Errorf("json.decode: %w. The text begins with %q", err, clip(string(s), 80))
	}
	return r.value(wire.ValueOf(raw))
}
