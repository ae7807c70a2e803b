package script

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

// charge is what a function of the interpreter costs, charged before it runs. v is the
// receiver of a method, and nil for other functions.
type charge func(r *Run, v starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error

// universe has the functions of the interpreter that scripts may use. Functions that are not
// listed do not exist for scripts. A nil charge means that the function takes constant time.
// All results are charged when they were made, so only those that are larger than the
// arguments are charged before.
var universe = map[string]charge{
	"abs": nil, "bool": nil, "chr": nil, "len": nil, "ord": nil, "range": nil, "type": nil, "dir": nil,
	"float": shortText, "int": shortText, "hash": scan,
	"any": iterate(0), "all": iterate(0), "bytes": iterate(1),
	"list": iterate(slotSize), "tuple": iterate(slotSize), "reversed": iterate(slotSize),
	"enumerate": iterate(slotSize + listSize + 64), "zip": iterate(slotSize + listSize + 64),
	"dict": iterateTree(2 * entrySize), "set": iterateTree(2 * entrySize),
	"sorted": compareAll(3 * slotSize), "min": compareAll(0), "max": compareAll(0),
	"str": text, "repr": text,
}

// own has the functions of this package that scripts may use.
var own = map[string]func(r *Run, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error){
	"print": (*Run).print, "fail": fail, "sum": (*Run).sum, "getattr": getattr, "hasattr": hasattr,
	"call": (*Run).call, "try_call": (*Run).tryCall, "parallel": (*Run).parallel, "try_parallel": (*Run).tryParallel,
	"search": (*Run).search, "describe": (*Run).describe,
}

// isPredeclared reports whether a name is defined for scripts.
func isPredeclared(name string) bool {
	_, isUniversal := universe[name]
	_, isOperator := operators[name]
	return isUniversal || isOperator || own[name] != nil || name == "json" || name == "math"
}

// predeclared returns the values of the names that are defined for scripts. It hides
// functions of the interpreter's own universe that are not listed.
func (r *Run) predeclared() starlark.StringDict {
	names := starlark.StringDict{"math": math.Module, "json": r.json()}
	for name, f := range operators {
		names[name] = starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return f(r, args)
		})
	}
	for name, f := range own {
		names[name] = r.function(name, f)
	}
	for name, before := range universe {
		original := starlark.Universe[name].(*starlark.Builtin)
		names[name] = r.function(name, func(r *Run, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return r.charged(original, before, nil, args, kwargs)
		})
	}
	return names
}

func (r *Run) function(name string, f func(*Run, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return f(r, args, kwargs)
	})
}

// charged calls a function of the interpreter. It charges its cost before, and its result
// after.
func (r *Run) charged(f *starlark.Builtin, before charge, v starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if before != nil {
		if err := before(r, v, args, kwargs); err != nil {
			return nil, err
		}
	}
	z, err := f.CallInternal(r.thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	if err := checkInt(z); err != nil {
		return nil, err
	}
	return r.made(z)
}

// shortText refuses to read a number from a long text.
func shortText(_ *Run, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	for _, a := range args {
		if n := starlark.Len(a); n > maxBits/3 {
			return fmt.Errorf("the text has %d bytes, which is too long for a number", n)
		}
	}
	return nil
}

// scan charges the reading of texts, the receiver among them.
func scan(r *Run, v starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	n := textSize(v)
	for _, a := range args {
		n += textSize(a)
		if list, ok := a.(starlark.Tuple); ok { // s.startswith((a, b))
			for _, e := range list {
				n += textSize(e) + 64
			}
		}
	}
	r.work(n)
	return nil
}

func textSize(v starlark.Value) int {
	switch v := v.(type) {
	case starlark.String:
		return len(v)
	case starlark.Bytes:
		return len(v)
	}
	return 0
}

// iterate charges size bytes for each element of the arguments.
func iterate(size int64) charge {
	return func(r *Run, _ starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
		for _, a := range allOf(args, kwargs) {
			n, err := r.length(a)
			if err != nil {
				return err
			}
			if _, ok := a.(starlark.String); ok { // bytes("text")
				n = textSize(a) / 64
			}
			if err := errors.Join(r.steps(n), r.alloc(int64(n)*size)); err != nil {
				return err
			}
		}
		return r.alloc(int64(len(kwargs)) * size)
	}
}

// iterateTree charges size bytes for each element of the arguments, and reads all of them as
// trees, since they may be keys.
func iterateTree(size int64) charge {
	perElement := iterate(size)
	return func(r *Run, v starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
		if err := perElement(r, v, args, kwargs); err != nil {
			return err
		}
		for _, a := range allOf(args, kwargs) {
			if _, isFunction := a.(starlark.Callable); isFunction || isScalar(a) {
				continue
			}
			if _, err := r.tree(a); err != nil {
				return err
			}
		}
		return nil
	}
}

// compareAll is iterateTree for functions that compare elements, or what a function key
// returns for them.
func compareAll(size int64) charge {
	elements := iterateTree(size)
	return func(r *Run, v starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
		if err := elements(r, v, args, kwargs); err != nil {
			return err
		}
		for i, a := range args {
			args[i] = r.chargedKey(a)
		}
		for _, kv := range kwargs {
			kv[1] = r.chargedKey(kv[1])
		}
		return nil
	}
}

// chargedKey returns a function that reads the results of f as trees, or v itself if it is
// no function.
func (r *Run) chargedKey(v starlark.Value) starlark.Value {
	f, ok := v.(starlark.Callable)
	if !ok {
		return v
	}
	return starlark.NewBuiltin(f.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		key, err := starlark.Call(thread, f, args, kwargs)
		if err != nil {
			return nil, err
		}
		_, err = r.tree(key)
		return key, err
	})
}

// text charges the text of the arguments.
func text(r *Run, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	for _, a := range args {
		n, err := r.tree(a)
		if err != nil {
			return err
		}
		if err := r.fits(quoted * n); err != nil {
			return err
		}
	}
	return nil
}

// textOf returns the text of a value as print shows it, and charges it.
func (r *Run) textOf(v starlark.Value) (string, error) {
	if s, ok := v.(starlark.String); ok {
		return string(s), nil
	}
	if err := text(r, nil, starlark.Tuple{v}, nil); err != nil {
		return "", err
	}
	s := v.String()
	return s, r.alloc(int64(len(s)))
}

// print adds a line to the output.
func (r *Run) print(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	sep, end := " ", "\n"
	if err := starlark.UnpackArgs("print", nil, kwargs, "sep?", &sep, "end?", &end); err != nil {
		return nil, err
	}
	for i, a := range args {
		if i > 0 {
			r.output = append(r.output, sep[:min(len(sep), r.room())]...)
		}
		s, err := r.textOf(a)
		if err != nil {
			return nil, err
		}
		if err := r.write(s); err != nil {
			return nil, err
		}
	}
	return starlark.None, r.write(end)
}

// room returns how much more a run may print.
func (r *Run) room() int { return r.limits.Output - len(r.output) }

func (r *Run) write(s string) error {
	if room := r.room(); len(s) > room {
		r.output = append(r.output, strings.ToValidUTF8(s[:max(room, 0)], "")...)
		return fmt.Errorf("the script printed more than %d bytes. Print less: a part, a count or a summary", r.limits.Output)
	}
	r.output = append(r.output, s...)
	return nil
}

// fail ends the script with a message.
func fail(r *Run, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	var parts []string
	for _, a := range args {
		s, err := r.textOf(a)
		if err != nil {
			return nil, err
		}
		parts = append(parts, clip(s, maxMessage))
	}
	said := strings.Join(parts, " ")
	return nil, &causedError{"fail: " + said, said}
}

// sum adds numbers.
func (r *Run) sum(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var list starlark.Iterable
	var total starlark.Value = starlark.MakeInt(0)
	if err := starlark.UnpackArgs("sum", args, kwargs, "iterable", &list, "start?", &total); err != nil {
		return nil, err
	}
	iter := list.Iterate()
	defer iter.Done()
	for v := starlark.Value(nil); iter.Next(&v); {
		var err error
		if err = r.steps(1); err == nil {
			total, err = r.binary(syntax.PLUS, total, v)
		}
		if err != nil {
			return nil, err
		}
	}
	return total, nil
}

func getattr(r *Run, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v, otherwise starlark.Value
	var name string
	if err := starlark.UnpackPositionalArgs("getattr", args, kwargs, 2, &v, &name, &otherwise); err != nil {
		return nil, err
	}
	found, err := r.attr(v, name)
	if err != nil && otherwise != nil {
		return otherwise, nil
	}
	return found, err
}

func hasattr(r *Run, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	var name string
	if err := starlark.UnpackPositionalArgs("hasattr", args, kwargs, 2, &v, &name); err != nil {
		return nil, err
	}
	_, err := r.attr(v, name)
	return starlark.Bool(err == nil), nil
}

// json is the module of that name.
func (r *Run) json() starlark.Value {
	members := starlark.StringDict{}
	for name, f := range map[string]func(*Run, starlark.Tuple, []starlark.Tuple) (starlark.Value, error){
		"encode": (*Run).jsonEncode, "dumps": (*Run).jsonEncode,
		"decode": (*Run).jsonDecode, "loads": (*Run).jsonDecode,
	} {
		members[name] = r.function("json."+name, f)
	}
	return &starlarkstruct.Module{Name: "json", Members: members}
}
