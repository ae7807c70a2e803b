package script

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"
)

// request reads the arguments of call: the name of the tool, a dict of arguments, and
// further arguments by name.
func (r *Run) request(function string, args starlark.Tuple, kwargs []starlark.Tuple) (request, error) {
	usage := fmt.Errorf(`write %s("tool", {"argument": value, …})`, function)
	if len(args) == 0 { // call(name="tool", arguments={…})
		var name, arguments starlark.Value
		if err := starlark.UnpackArgs(function, nil, kwargs, "name", &name, "arguments?", &arguments); err != nil {
			return request{}, usage
		}
		args, kwargs = starlark.Tuple{name}, nil
		if arguments != nil {
			args = append(args, arguments)
		}
	}
	tool, ok := starlark.AsString(args[0])
	if !ok || len(args) > 2 {
		return request{}, usage
	}
	all := new(starlark.Dict)
	if len(args) == 2 && args[1] != starlark.None {
		given, ok := args[1].(*starlark.Dict)
		if !ok {
			return request{}, fmt.Errorf("%s: the arguments of the tool are a %s, and must be a dict", function, args[1].Type())
		}
		all = given
	}
	if len(kwargs) > 0 {
		merged := new(starlark.Dict)
		if err := r.alloc(sizeOf(all) + entrySize*int64(len(kwargs))); err != nil {
			return request{}, err
		}
		for k, v := range all.Entries() {
			_ = merged.SetKey(k, v) // the dict is new
		}
		for _, kv := range kwargs {
			_ = merged.SetKey(kv[0], kv[1])
		}
		all = merged
	}
	raw, err := r.encode(nil, all, int(min(r.memory, maxArguments)))
	if errors.Is(err, errTooLong) {
		err = fmt.Errorf("%s: the arguments of the tool have more than %d bytes", function, maxArguments)
	}
	if err == nil {
		err = r.alloc(int64(len(raw)))
	}
	return request{tool, raw}, err
}

// maxArguments bounds the arguments of one call.
const maxArguments = 4 << 20

// count takes n calls off the limit.
func (r *Run) count(n int) error {
	if r.calls += n; r.calls > r.limits.Calls {
		return fmt.Errorf("the script makes more than %d calls. Use tools that do more at once, or continue in another script", r.limits.Calls)
	}
	return nil
}

// call is call(name, arguments): the value of the result, or the end of the script.
func (r *Run) call(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	q, err := r.request("call", args, kwargs)
	if err != nil {
		return nil, err
	}
	outcomes, err := r.send([]request{q})
	if err != nil {
		return nil, err
	}
	v, failed, err := r.read(outcomes[0])
	if err != nil {
		return nil, err
	}
	if failed != "" {
		return nil, &causedError{q.tool + ": " + failed, failed}
	}
	return v.value, nil
}

// tryCall is try_call(name, arguments): a record that says whether the call succeeded.
func (r *Run) tryCall(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	q, err := r.request("try_call", args, kwargs)
	if err != nil {
		return nil, err
	}
	outcomes, err := r.send([]request{q})
	if err != nil {
		return nil, err
	}
	return r.record(outcomes[0])
}

// record returns an outcome as a value.
func (r *Run) record(o outcome) (starlark.Value, error) {
	read, failed, err := r.read(o)
	if err != nil {
		return nil, err
	}
	var problem starlark.Value = starlark.None
	if failed != "" {
		problem = starlark.String(failed)
	}
	return &record{
		names:  []string{"ok", "value", "error", "text"},
		values: []starlark.Value{starlark.Bool(failed == ""), read.value, problem, starlark.String(read.text)},
	}, r.alloc(listSize + 5*slotSize + int64(len(failed)))
}

// parallel is parallel([(name, arguments), …]): the values of the results in their order.
func (r *Run) parallel(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	requests, outcomes, err := r.sendAll("parallel", args, kwargs)
	if err != nil {
		return nil, err
	}
	values := make([]starlark.Value, len(outcomes))
	for i, o := range outcomes {
		outcomes[i] = outcome{} // the result is of no use once it is read
		v, failed, err := r.read(o)
		if err != nil {
			return nil, err
		}
		if failed != "" {
			return nil, &causedError{fmt.Sprintf("call %d of %d, %s: %s. All calls have ended; try_parallel returns a result for each", i+1, len(outcomes), requests[i].tool, failed), failed}
		}
		values[i] = v.value
	}
	return starlark.NewList(values), r.alloc(listSize + slotSize*int64(len(values)))
}

// tryParallel is try_parallel: records in the place of values.
func (r *Run) tryParallel(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	_, outcomes, err := r.sendAll("try_parallel", args, kwargs)
	if err != nil {
		return nil, err
	}
	values := make([]starlark.Value, len(outcomes))
	for i, o := range outcomes {
		outcomes[i] = outcome{}
		if values[i], err = r.record(o); err != nil {
			return nil, err
		}
	}
	return starlark.NewList(values), r.alloc(listSize + slotSize*int64(len(values)))
}

func (r *Run) sendAll(function string, args starlark.Tuple, kwargs []starlark.Tuple) ([]request, []outcome, error) {
	var list starlark.Iterable
	usage := fmt.Errorf(`write %s([("tool", {"argument": value, …}), …])`, function)
	if err := starlark.UnpackPositionalArgs(function, args, kwargs, 1, &list); err != nil {
		return nil, nil, usage
	}
	n, err := r.length(list)
	if err != nil {
		return nil, nil, err
	}
	if r.calls+n > r.limits.Calls {
		return nil, nil, r.count(n)
	}
	requests := make([]request, 0, n)
	iter := list.Iterate()
	defer iter.Done()
	for e := starlark.Value(nil); iter.Next(&e); {
		q, err := r.element(function, e)
		if err != nil {
			return nil, nil, fmt.Errorf("element %d: %w", len(requests), err)
		}
		requests = append(requests, q)
	}
	outcomes, err := r.send(requests)
	return requests, outcomes, err
}

// element reads an element of the list of parallel: (name, arguments), a name, or a dict
// with name and arguments.
func (r *Run) element(function string, e starlark.Value) (request, error) {
	switch e := e.(type) {
	case starlark.String:
		return r.request(function, starlark.Tuple{e}, nil)
	case starlark.Tuple:
		return r.request(function, e[:min(len(e), 3):min(len(e), 3)], nil)
	case *starlark.List:
		parts := starlark.Tuple{}
		for i := range min(e.Len(), 3) {
			parts = append(parts, e.Index(i))
		}
		return r.request(function, parts, nil)
	case *starlark.Dict:
		name, _, _ := e.Get(starlark.String("name"))
		arguments, found, _ := e.Get(starlark.String("arguments"))
		if !found {
			arguments = starlark.None
		}
		if name != nil {
			return r.request(function, starlark.Tuple{name, arguments}, nil)
		}
	case starlark.Callable:
		return request{}, errors.New(`is a function. Write the call as ("tool", {"argument": value, …})`)
	}
	return request{}, fmt.Errorf(`is a %s. Write ("tool", {"argument": value, …})`, e.Type())
}
