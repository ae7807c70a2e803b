package script

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"
)

// Bounds that are not configured.
const (
	// MaxMemory is how much memory the values of one run may take together.
	MaxMemory = 128 << 20
	// MaxSource is how long a script may be.
	MaxSource = 64 << 10

	maxBits      = 4096 // of an integer
	maxNesting   = 100  // levels of a value that is read as a tree
	maxCallDepth = 200  // functions that wait for one another
	maxTree      = 400  // levels of the syntax tree
	reserveStep  = 1 << 20
)

// Sizes of values in memory, with the room that growing leaves.
const (
	slotSize  = 40  // one element of a list
	listSize  = 64  // a list or tuple without elements
	dictSize  = 600 // a dict or set without entries
	entrySize = 160 // one entry of a dict or set
	funcSize  = 256
)

var errMemory = errors.New("out of memory: all values of a script together may take 128 MiB, also those that it no longer uses. Work on less data at once; collect parts in a list and join them instead of adding to a string")

// alloc charges memory. The caller has not made the value yet.
func (r *Run) alloc(n int64) error {
	if n < 0 || n > r.memory {
		return errMemory
	}
	r.memory -= n
	if n <= r.reserved {
		r.reserved -= n
		return nil
	}
	if r.opts.Reserve == nil {
		return nil
	}
	more := (n - r.reserved + reserveStep - 1) / reserveStep * reserveStep
	if err := r.opts.Reserve(more); err != nil {
		return err
	}
	r.reserved += more - n
	return nil
}

// fits reports whether as much memory is left, without charging it.
func (r *Run) fits(n int64) error {
	if n < 0 || n > r.memory {
		return errMemory
	}
	return nil
}

// work charges the time that an operation takes for reading n bytes, as steps. The
// interpreter ends the script at its next step if there were too many.
func (r *Run) work(n int) { r.thread.Steps += uint64(n) / 64 }

// steps charges steps, and fails if too few are left: the operation must not begin.
func (r *Run) steps(n int) error {
	r.thread.Steps += uint64(n)
	if r.thread.Steps >= uint64(r.limits.Steps) {
		return r.errSteps()
	}
	return nil
}

func (r *Run) errSteps() error {
	return fmt.Errorf("the script took more than %d steps. Do less in loops, and work on less data", r.limits.Steps)
}

// sizeOf returns the memory that a value takes by itself, without its elements.
func sizeOf(v starlark.Value) int64 {
	switch v := v.(type) {
	case starlark.String:
		return 16 + int64(len(v))
	case starlark.Bytes:
		return 16 + int64(len(v))
	case starlark.Int:
		if n, ok := v.Int64(); ok && n == int64(int32(n)) {
			return 0
		}
		return 64 + int64(v.BigInt().BitLen()/8)
	case starlark.Float:
		return 8
	case *starlark.List:
		return listSize + slotSize*int64(v.Len())
	case starlark.Tuple:
		return listSize + slotSize*int64(len(v))
	case *starlark.Dict:
		return dictSize + entrySize*int64(v.Len())
	case *starlark.Set:
		return dictSize + entrySize*int64(v.Len())
	case *starlark.Builtin, *starlark.Function:
		return funcSize
	}
	return 0
}

// tree walks a value as a tree, charges the work, and returns about how many bytes its
// text has. A value that contains itself ends with an error.
func (r *Run) tree(v starlark.Value) (int64, error) {
	w := treeWalk{most: int64(r.limits.Steps) - int64(r.thread.Steps)}
	if err := w.walk(v, 0); err != nil {
		return 0, err
	}
	r.thread.Steps += uint64(w.nodes / treeNodes)
	r.work(int(w.bytes))
	return w.bytes, nil
}

// quoted is how many bytes of a quoted text stand for one byte at most, as in "\xff".
const quoted = 4

// treeNodes is how many nodes of a tree count as one step.
const treeNodes = 4

type treeWalk struct {
	nodes, bytes int64
	most         int64 // steps that are left
}

func (w *treeWalk) walk(v starlark.Value, depth int) error {
	w.nodes++
	if depth > maxNesting {
		return fmt.Errorf("the value is nested over %d levels deep, or contains itself", maxNesting)
	}
	if w.nodes/treeNodes+w.bytes/64 > w.most {
		return errors.New("the value is too large for this operation: reading all of it would take more steps than are left")
	}
	switch v := v.(type) {
	case starlark.String:
		w.bytes += int64(len(v)) + 2
	case starlark.Bytes:
		w.bytes += int64(len(v)) + 3
	case starlark.Int:
		w.bytes += 2 + sizeOf(v)*3
	case *starlark.List:
		w.bytes += 2
		for i := range v.Len() {
			w.bytes += 2
			if err := w.walk(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case starlark.Tuple:
		w.bytes += 3
		for _, e := range v {
			w.bytes += 2
			if err := w.walk(e, depth+1); err != nil {
				return err
			}
		}
	case *starlark.Dict:
		w.bytes += 2
		for k, e := range v.Entries() {
			w.bytes += 4
			if err := w.walk(k, depth+1); err != nil {
				return err
			}
			if err := w.walk(e, depth+1); err != nil {
				return err
			}
		}
	case *starlark.Set:
		w.bytes += 7
		for e := range v.Elements() {
			w.bytes += 2
			if err := w.walk(e, depth+1); err != nil {
				return err
			}
		}
	case *record:
		for i, e := range v.values {
			w.bytes += int64(len(v.names[i])) + 4
			if err := w.walk(e, depth+1); err != nil {
				return err
			}
		}
	default:
		w.bytes += 24
	}
	return nil
}

// key charges the hash of a value that is used as a key. Only tuples are read as a tree. An
// error of the interpreter may quote the key, so there must be room for its text.
func (r *Run) key(v starlark.Value) error {
	var text int64
	switch v := v.(type) {
	case starlark.Tuple:
		n, err := r.tree(v)
		if err != nil {
			return err
		}
		text = n
	case starlark.String:
		r.work(len(v))
		text = int64(len(v))
	case starlark.Bytes:
		r.work(len(v))
		text = int64(len(v))
	}
	return r.fits(quoted * text)
}

// checkInt refuses integers that are too long.
func checkInt(v starlark.Value) error {
	if n, ok := v.(starlark.Int); ok {
		if _, small := n.Int64(); !small && n.BigInt().BitLen() > maxBits {
			return fmt.Errorf("the integer has more than %d bits", maxBits)
		}
	}
	return nil
}

// isScalar reports whether a value has no elements.
func isScalar(v starlark.Value) bool {
	switch v.(type) {
	case starlark.NoneType, starlark.Bool, starlark.Int, starlark.Float, starlark.String, starlark.Bytes:
		return true
	}
	return false
}

// length returns how many elements an iterable has.
func (r *Run) length(v starlark.Value) (int, error) {
	if n := starlark.Len(v); n >= 0 {
		if _, text := v.(starlark.String); text {
			return 0, nil // it is not iterable, which the function that gets it says
		}
		return n, nil
	}
	iter := starlark.Iterate(v)
	if iter == nil {
		return 0, nil
	}
	defer iter.Done()
	// The characters of a string have no length that is known, and no other value of a script
	// has none.
	n := 0
	for e := starlark.Value(nil); iter.Next(&e); n++ {
		if n%1024 == 1023 {
			if err := r.steps(1024 / treeNodes); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}
