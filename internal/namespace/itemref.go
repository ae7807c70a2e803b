package namespace

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// ItemRef is the reference of a request to an item.
type ItemRef struct {
	Kind call.Kind
	Name string // the public name or URI, as the client wrote it

	params wire.Raw
	at     wire.Value
}

// ItemRefOf returns the reference of a client's request. It returns false if requests of the
// method have no reference, or need not have one, such as resources/list. The params must
// have passed the strict check for clients, which refuses duplicate keys. The error is a
// *wire.Error with CodeInvalidParams.
func ItemRefOf(method string, params wire.Raw) (ItemRef, bool, error) {
	root := wire.ValueOf(params)
	m := wire.MethodOf(method)
	switch {
	case m.Item == wire.ItemNone, m.Member == "", m.MemberOptional && !root.Get(m.Member).Exists():
		return ItemRef{}, false, nil
	case m.Item != wire.ItemReferred:
		return refAt(call.KindOf(m.Item), method, params, root, "params.", m.Member)
	}
	ref := root.Get(m.Member)
	switch {
	case ref.Get("type").IsString("ref/prompt"):
		return refAt(call.Prompt, method, params, ref, "params.ref.", "name")
	case ref.Get("type").IsString("ref/resource"):
		return refAt(call.Template, method, params, ref, "params.ref.", "uri")
	}
	return ItemRef{}, false, wire.Errorf(wire.CodeInvalidParams, `%s: params.ref must be an object whose type is "ref/prompt" or "ref/resource"`, method)
}

func refAt(kind call.Kind, method string, params wire.Raw, at wire.Value, path, member string) (ItemRef, bool, error) {
	place := at.Get(member)
	name, ok := place.Text()
	if !ok {
		return ItemRef{}, false, wire.Errorf(wire.CodeInvalidParams, "%s: %s%s must be a string", method, path, member)
	}
	return ItemRef{kind, name, params, place}, true, nil
}

// With returns the params with the native name instead of the public one. It returns the
// same slice if the names are equal.
func (r ItemRef) With(native string) wire.Raw {
	if native == r.Name {
		return r.params
	}
	e := wire.NewEdit(r.params)
	e.ReplaceString(r.at, native)
	return e.Bytes()
}
