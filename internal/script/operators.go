package script

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Names of the functions that the rewriter puts in the place of operations. An operator has
// a dollar sign and its spelling, as in "$+".
const (
	opSized     = "$sized"   // (n, v): charges n bytes for v
	opMade      = "$made"    // (v): charges v, which is as large as one of its operands at most
	opElement   = "$element" // (v): charges one element of a comprehension
	opEntry     = "$entry"   // (k): charges a key that is stored
	opKey       = "$key"     // (k): charges a key that is looked up
	opAttr      = "$."       // (x, name)
	opSpread    = "$spread"  // (v): charges arguments that come from a list or dict
	opEnter     = "$enter"   // (n): begins a function with n bytes of variables
	opInPlace   = "$="       // (op, x, y): the result of x op= y
	opInPlaceAt = "$[]="     // (op, x, i, y): x[i] op= y
	opSetAt     = "$set"     // (v, x, i): x[i] = v
)

// operator is a function of the rewriter. Its arguments are as many as the rewriter gives.
type operator func(r *Run, args starlark.Tuple) (starlark.Value, error)

var operators = map[string]operator{
	opSized: func(r *Run, args starlark.Tuple) (starlark.Value, error) {
		n, _ := args[0].(starlark.Int).Int64()
		return args[1], r.alloc(n)
	},
	opMade: func(r *Run, args starlark.Tuple) (starlark.Value, error) { return r.made(args[0]) },
	opElement: func(r *Run, args starlark.Tuple) (starlark.Value, error) {
		return args[0], r.alloc(slotSize + boxed(args[0]))
	},
	opEntry: func(r *Run, args starlark.Tuple) (starlark.Value, error) {
		if err := r.key(args[0]); err != nil {
			return nil, err
		}
		return args[0], r.alloc(entrySize)
	},
	opKey: func(r *Run, args starlark.Tuple) (starlark.Value, error) { return args[0], r.key(args[0]) },
	opAttr: func(r *Run, args starlark.Tuple) (starlark.Value, error) {
		return r.attr(args[0], string(args[1].(starlark.String)))
	},
	opSpread: func(r *Run, args starlark.Tuple) (starlark.Value, error) { return r.spread(args[0]) },
	opEnter: func(r *Run, args starlark.Tuple) (starlark.Value, error) {
		if r.thread.CallStackDepth() > maxCallDepth {
			return nil, fmt.Errorf("over %d calls of functions wait for one another. Is this an endless recursion?", maxCallDepth)
		}
		n, _ := args[0].(starlark.Int).Int64()
		return starlark.True, r.alloc(n)
	},
	opInPlace: func(r *Run, args starlark.Tuple) (starlark.Value, error) {
		return r.inPlace(string(args[0].(starlark.String)), args[1], args[2])
	},
	opInPlaceAt: func(r *Run, args starlark.Tuple) (starlark.Value, error) {
		old, err := r.index(args[1], args[2])
		if err != nil {
			return nil, err
		}
		v, err := r.inPlace(string(args[0].(starlark.String)), old, args[3])
		if err != nil {
			return nil, err
		}
		return starlark.None, r.setIndex(args[1], args[2], v)
	},
	opSetAt: func(r *Run, args starlark.Tuple) (starlark.Value, error) {
		return starlark.None, r.setIndex(args[1], args[2], args[0])
	},
}

func init() {
	for _, op := range []syntax.Token{syntax.PLUS, syntax.MINUS, syntax.STAR, syntax.SLASH, syntax.SLASHSLASH, syntax.PERCENT, syntax.AMP,
		syntax.PIPE, syntax.CIRCUMFLEX, syntax.LTLT, syntax.GTGT, syntax.IN, syntax.NOT_IN} {
		binaryOps[op.String()] = op
		operators["$"+op.String()] = func(r *Run, args starlark.Tuple) (starlark.Value, error) { return r.binary(op, args[0], args[1]) }
	}
	for _, op := range []syntax.Token{syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE} {
		operators["$"+op.String()] = func(r *Run, args starlark.Tuple) (starlark.Value, error) {
			return r.compare(op, args[0], args[1])
		}
	}
}

// binaryOps has the operators by their spelling.
var binaryOps = map[string]syntax.Token{}

// boxed returns the memory of a small value in a slot, 0 for one that was charged when it
// was made.
func boxed(v starlark.Value) int64 {
	switch v.(type) {
	case starlark.Int, starlark.Float:
		return sizeOf(v)
	case starlark.String:
		return 16
	}
	return 0
}

// made charges a value that exists already.
func (r *Run) made(v starlark.Value) (starlark.Value, error) { return v, r.alloc(sizeOf(v)) }

func (r *Run) spread(v starlark.Value) (starlark.Value, error) {
	n, err := r.length(v)
	if err != nil {
		return nil, err
	}
	if err := r.steps(n); err != nil {
		return nil, err
	}
	return v, r.alloc(int64(n) * entrySize)
}

// binary returns x op y. It charges the result first if its size is more than a constant.
func (r *Run) binary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	var err error
	switch op {
	case syntax.IN, syntax.NOT_IN:
		err = r.contains(x, y)
	case syntax.STAR:
		err = r.repeat(x, y)
	case syntax.PERCENT:
		if s, ok := x.(starlark.String); ok {
			return r.interpolate(s, y)
		}
	case syntax.PLUS, syntax.MINUS, syntax.PIPE, syntax.AMP, syntax.CIRCUMFLEX:
		_, int1 := x.(starlark.Int)
		_, int2 := y.(starlark.Int)
		if !int1 && !int2 {
			n := sizeOf(x) + sizeOf(y)
			r.work(int(n))
			err = r.alloc(n)
		}
	}
	if err != nil {
		return nil, err
	}
	z, err := starlark.Binary(op, x, y)
	if err != nil {
		return nil, err
	}
	if n, ok := z.(starlark.Int); ok {
		if err := checkInt(n); err != nil {
			return nil, err
		}
		return z, r.alloc(sizeOf(z))
	}
	return z, nil
}

// repeat charges x * y if one is a sequence.
func (r *Run) repeat(x, y starlark.Value) error {
	count, ok := y.(starlark.Int)
	if !ok {
		x, y = y, x
		if count, ok = y.(starlark.Int); !ok {
			return nil
		}
	}
	var unit int64
	switch x := x.(type) {
	case starlark.String:
		unit = int64(len(x))
	case starlark.Bytes:
		unit = int64(len(x))
	case *starlark.List:
		unit = slotSize * int64(x.Len())
	case starlark.Tuple:
		unit = slotSize * int64(len(x))
	}
	n, ok := count.Int64()
	if unit == 0 || ok && n <= 0 || !ok && count.Sign() < 0 {
		return nil
	}
	high, size := bits.Mul64(uint64(unit), uint64(n))
	if !ok || high != 0 || size > MaxMemory {
		return errMemory
	}
	r.work(int(size))
	return r.alloc(int64(size))
}

// interpolate returns format % v. Starlark has no widths, so the text is as long as the
// texts of the values; a dict may be named several times.
func (r *Run) interpolate(format starlark.String, v starlark.Value) (starlark.Value, error) {
	n, err := r.tree(v)
	if err != nil {
		return nil, err
	}
	verbs := int64(strings.Count(string(format), "%"))
	if _, ok := v.(*starlark.Dict); ok {
		n *= verbs
	}
	if err := r.fits(int64(len(format)) + verbs*320 + quoted*n); err != nil {
		return nil, err
	}
	z, err := starlark.Binary(syntax.PERCENT, format, v)
	if err != nil {
		return nil, err
	}
	return r.made(z)
}

// contains charges x in y.
func (r *Run) contains(x, y starlark.Value) error {
	switch y := y.(type) {
	case starlark.String:
		r.work(len(y))
	case starlark.Bytes:
		r.work(len(y))
	case *starlark.Dict, *starlark.Set:
		return r.key(x)
	case *starlark.List, starlark.Tuple:
		if isScalar(x) {
			for e := range starlark.Elements(y.(starlark.Iterable)) { // texts are compared if they are equally long
				if n := textSize(e); n > 64 && n == textSize(x) {
					r.work(n)
				}
			}
			return r.steps(starlark.Len(y) / treeNodes)
		}
		if _, err := r.tree(x); err != nil {
			return err
		}
		_, err := r.tree(y)
		return err
	}
	return nil
}

func (r *Run) compare(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	if a, ok := x.(starlark.String); ok {
		r.work(len(a))
	}
	if !isScalar(x) && !isScalar(y) {
		for _, v := range []starlark.Value{x, y} {
			if _, err := r.tree(v); err != nil {
				return nil, err
			}
		}
	}
	ok, err := starlark.Compare(op, x, y)
	return starlark.Bool(ok), err
}

// inPlace returns the value of x after x op= y. Lists and dicts change, others do not.
func (r *Run) inPlace(name string, x, y starlark.Value) (starlark.Value, error) {
	op := binaryOps[name]
	if list, ok := x.(*starlark.List); ok && op == syntax.PLUS {
		if _, ok := y.(starlark.Iterable); ok {
			extend, _ := list.Attr("extend")
			_, err := r.method(extend.(*starlark.Builtin), starlark.Tuple{y}, nil)
			return x, err
		}
	}
	if dict, ok := x.(*starlark.Dict); ok && op == syntax.PIPE {
		if _, ok := y.(*starlark.Dict); ok {
			update, _ := dict.Attr("update")
			_, err := r.method(update.(*starlark.Builtin), starlark.Tuple{y}, nil)
			return x, err
		}
	}
	return r.binary(op, x, y)
}

// index returns x[i].
func (r *Run) index(x, i starlark.Value) (starlark.Value, error) {
	if err := r.key(i); err != nil {
		return nil, err
	}
	switch x := x.(type) {
	case starlark.Mapping:
		v, found, err := x.Get(i)
		if err == nil && !found {
			err = fmt.Errorf("key %s not in %s", clip(i.String(), 100), x.Type())
		}
		return v, err
	case starlark.Indexable:
		n, err := position(i, x.Len(), x.Type())
		if err != nil {
			return nil, err
		}
		return x.Index(n), nil
	}
	return nil, fmt.Errorf("%s has no elements", x.Type())
}

// position returns the index that i means in a value with n elements.
func position(i starlark.Value, n int, kind string) (int, error) {
	at, err := starlark.AsInt32(i)
	if err != nil {
		return 0, fmt.Errorf("%s index: %w", kind, err)
	}
	if at < -n || at >= n {
		return 0, fmt.Errorf("%s index %d out of range: it has %d elements", kind, at, n)
	}
	if at < 0 {
		at += n
	}
	return at, nil
}

// setIndex does x[i] = v.
func (r *Run) setIndex(x, i, v starlark.Value) error {
	switch x := x.(type) {
	case *starlark.Dict:
		if err := errors.Join(r.key(i), r.alloc(entrySize)); err != nil {
			return err
		}
		return x.SetKey(i, v)
	case *starlark.List:
		n, err := position(i, x.Len(), x.Type())
		if err != nil {
			return err
		}
		return x.SetIndex(n, v)
	}
	return fmt.Errorf("%s value does not support item assignment", x.Type())
}
