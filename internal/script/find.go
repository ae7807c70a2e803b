package script

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"mcpgateway/internal/wire"
)

// search is search(query, limit=…, upstream=…, annotations=…): a list of dicts.
func (r *Run) search(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	query := new(starlark.Dict)
	if len(args) > 1 {
		return nil, errors.New(`write search("words", limit = 5)`)
	}
	for _, a := range args {
		_ = query.SetKey(starlark.String("query"), a)
	}
	for _, kv := range kwargs {
		_ = query.SetKey(kv[0], kv[1])
	}
	raw, err := r.encode(nil, query, maxSource)
	if err != nil {
		return nil, err
	}
	if err := r.count(1); err != nil {
		return nil, err
	}
	r.wait()
	found, err := r.opts.Host.Search(r.ctx, raw)
	r.compute()
	if err != nil {
		return nil, err
	}
	return r.value(wire.ValueOf(found))
}

// describe is describe(name, …): the signatures and descriptions of tools, as text.
func (r *Run) describe(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var names []string
	if len(args) == 1 && !isScalar(args[0]) { // describe([name, …])
		n, err := r.length(args[0])
		if err != nil {
			return nil, err
		}
		if err := r.spreadNames(&args, n); err != nil {
			return nil, err
		}
	}
	for _, a := range args {
		name, ok := starlark.AsString(a)
		if !ok {
			return nil, errors.New(`write describe("tool", …)`)
		}
		names = append(names, name)
	}
	if len(names) == 0 || len(names) > maxDescribed || len(kwargs) > 0 {
		return nil, fmt.Errorf(`write describe("tool", …) with 1 to %d tools`, maxDescribed)
	}
	if err := r.count(1); err != nil {
		return nil, err
	}
	r.wait()
	definitions, err := r.opts.Host.Describe(r.ctx, names)
	r.compute()
	if err != nil {
		return nil, err
	}
	var stubs []string
	for _, d := range definitions {
		stubs = append(stubs, Stub(d))
	}
	return r.made(starlark.String(strings.Join(stubs, "\n\n")))
}

// maxDescribed is how many tools one call of describe may name.
const maxDescribed = 20

// spreadNames replaces a list by its elements.
func (r *Run) spreadNames(args *starlark.Tuple, n int) error {
	if n > maxDescribed {
		return fmt.Errorf("describe takes at most %d tools", maxDescribed)
	}
	iter := starlark.Iterate((*args)[0])
	if iter == nil {
		return nil
	}
	defer iter.Done()
	var names starlark.Tuple
	for e := starlark.Value(nil); iter.Next(&e); {
		names = append(names, e)
	}
	*args = names
	return nil
}
