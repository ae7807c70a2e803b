package policy

import (
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// operand is a constant, a field of a variable, or a member of arguments, annotations or
// claims, in the quick form of a condition.
type operand struct {
	source   source
	kind     call.Kind // of the item that has the field
	path     []string  // to the member
	key      string    // the path in one text
	size     bool      // its size is meant
	constant value
}

// source says what an operand is.
type source uint8

const (
	constant source = iota
	arguments
	annotations
	claims
	itemName
	itemNative
	itemUpstream
	itemMIMEType
	subject
	issuer
	proof
	groups
	scopes
	method
	era
	revision
	profile
)

// isJSON reports whether the operand is a member at a path.
func (s source) isJSON() bool { return s == arguments || s == annotations || s == claims }

// sources are the sources of fields, by variable and field.
var sources = map[string]map[string]operand{
	"tool": {
		"name": {source: itemName}, "native": {source: itemNative}, "upstream": {source: itemUpstream}, "annotations": {source: annotations},
	},
	"resource": {
		"uri": {source: itemName, kind: call.Resource}, "native": {source: itemNative, kind: call.Resource},
		"upstream": {source: itemUpstream, kind: call.Resource}, "mimeType": {source: itemMIMEType, kind: call.Resource},
		"annotations": {source: annotations, kind: call.Resource},
	},
	"prompt": {
		"name": {source: itemName, kind: call.Prompt}, "native": {source: itemNative, kind: call.Prompt},
		"upstream": {source: itemUpstream, kind: call.Prompt},
	},
	"principal": {
		"subject": {source: subject}, "issuer": {source: issuer}, "proof": {source: proof},
		"groups": {source: groups}, "scopes": {source: scopes}, "claims": {source: claims},
	},
	"request": {"method": {source: method}, "era": {source: era}, "revision": {source: revision}, "profile": {source: profile}},
}

// operandOf returns the operand that an expression is. It has one value or, for a size, one
// length.
func operandOf(e ast.Expr) (operand, bool) {
	o, ok := readOperand(e)
	switch {
	case o.source.isJSON():
		ok = ok && len(o.path) > 0
	case o.source == groups, o.source == scopes:
		ok = ok && o.size
	}
	return o, ok
}

// readOperand is operandOf for whole variables and for lists, too.
func readOperand(e ast.Expr) (operand, bool) {
	switch e.Kind() {
	case ast.LiteralKind:
		return constantOf(e)
	case ast.IdentKind:
		return operand{source: arguments}, variableOf(e) == "args"
	case ast.SelectKind:
		s := e.AsSelect()
		if s.IsTestOnly() {
			return operand{}, false
		}
		if of := s.Operand(); of.Kind() == ast.IdentKind && variableOf(of) != "args" {
			o, ok := sources[variableOf(of)][s.FieldName()]
			return o, ok
		}
		return memberOf(s.Operand(), s.FieldName())
	case ast.CallKind:
		c := e.AsCall()
		switch {
		case c.FunctionName() == operators.Index && c.Args()[1].Kind() == ast.LiteralKind:
			if name, ok := c.Args()[1].AsLiteral().(types.String); ok {
				return memberOf(c.Args()[0], string(name))
			}
		case c.FunctionName() == overloads.Size:
			of := c.Target()
			if !c.IsMemberFunction() {
				of = c.Args()[0]
			}
			o, ok := readOperand(of)
			ok = ok && !o.size && o.source >= arguments && o.source != annotations // members of annotations may be repeated
			o.size = true
			return o, ok
		}
	}
	return operand{}, false
}

func constantOf(e ast.Expr) (operand, bool) {
	var v value
	switch c := e.AsLiteral().(type) {
	case types.String:
		v = value{kind: text, text: string(c)}
	case types.Int:
		v = value{kind: integer, n: int64(c)}
	case types.Bool:
		if v.kind = boolean; c {
			v.n = 1
		}
	case types.Null:
		v.kind = null
	}
	return operand{constant: v}, v.kind != failing
}

// memberOf returns the operand for a member of another one.
func memberOf(of ast.Expr, name string) (operand, bool) {
	o, ok := readOperand(of)
	if !ok || !o.source.isJSON() || o.size {
		return operand{}, false
	}
	o.path = append(o.path, name)
	o.key = strings.Join(o.path, "\x00")
	return o, true
}

// inputs are the data that the quick form of a condition reads. It remembers the arguments
// and members that were found, because many rules read the same ones.
type inputs struct {
	vars  vars
	found [4]found
	next  int
	args  wire.Value
	asked bool // args are known
}

// found is what was found at a path.
type found struct {
	source source
	kind   call.Kind
	key    string
	set    outcome // whether there is a member
	value  value   // failing if there is none
}

// small reports whether all that can be read is within the bounds of quick conditions.
func (in *inputs) small() bool {
	v := &in.vars
	return len(v.req.Params) <= maxQuick && len(v.about) <= maxQuick && len(v.public) <= maxQuick && len(v.caller.Principal.Claims) <= maxQuick &&
		len(v.caller.Principal.Groups) <= maxQuick && len(v.caller.Principal.Scopes) <= maxQuick
}

// eval returns the value of the operand. It may use room for it.
func (o *operand) eval(in *inputs, room *value) *value {
	v := o.read(in, room)
	if o.size {
		*room = v.length()
		return room
	}
	return v
}

func (o *operand) read(in *inputs, room *value) *value {
	v := &in.vars
	switch {
	case o.source == constant:
		return &o.constant
	case v.open != 0 && v.open&o.source.openBy() != 0:
		*room = value{kind: unknown}
		return room
	case o.source.isJSON():
		return &o.at(in).value
	}
	switch o.source {
	case itemName, itemNative, itemUpstream, itemMIMEType:
		*room = o.field(v)
	case groups:
		*room = value{kind: textList, texts: v.caller.Principal.Groups}
	case scopes:
		*room = value{kind: textList, texts: v.caller.Principal.Scopes}
	default:
		*room = value{kind: text, text: o.source.text(v)}
	}
	return room
}

// openBy returns the part of a request whose absence makes the source unknown.
func (s source) openBy() open {
	switch s {
	case arguments:
		return openArgs
	case annotations, itemName, itemNative, itemUpstream, itemMIMEType, method:
		return openItem
	case era, revision:
		return openClient
	default:
		return 0
	}
}

func (s source) text(v *vars) string {
	switch s {
	case subject:
		return v.caller.Principal.Subject
	case issuer:
		return v.caller.Principal.Issuer
	case proof:
		return v.caller.Principal.AuthMethod
	case method:
		return v.req.Method
	case era:
		return v.caller.Revision.Era().String()
	case profile:
		return v.caller.profile
	default:
		return string(v.caller.Revision)
	}
}

// field returns a field of the item, which fails for an item of another kind.
func (o *operand) field(v *vars) value {
	switch {
	case !v.is(o.kind):
		return value{}
	case o.source == itemName:
		return value{kind: text, text: v.public}
	case o.source == itemNative:
		return value{kind: text, text: v.item.Native}
	case o.source == itemUpstream:
		return value{kind: text, text: v.item.Upstream}
	case v.about == nil:
		return value{}
	default:
		return value{kind: text, text: wire.ValueOf(v.about).Get("mimeType").Str()}
	}
}

// at returns what there is at the path.
func (o *operand) at(in *inputs) *found {
	for i := range in.found {
		if f := &in.found[i]; f.source == o.source && f.kind == o.kind && f.key == o.key {
			return f
		}
	}
	f := &in.found[in.next]
	in.next = (in.next + 1) % len(in.found)
	*f = found{source: o.source, kind: o.kind, key: o.key, set: failed}
	of, ok := o.parent(in)
	if !ok {
		return f
	}
	member := of.Get(o.path[len(o.path)-1])
	if member.Exists() {
		f.value = valueOf(member)
	}
	// The library does not ask a list, and not a number that it cannot read.
	if of.Kind() != '[' && (len(o.path) == 1 || valueOf(of).kind != failing) {
		f.set = outcomeOf(member.Exists())
	}
	return f
}

// isSet reports whether there is a member at the path. It fails if that may not be asked.
func (o *operand) isSet(in *inputs) outcome {
	if in.vars.open&o.source.openBy() != 0 {
		return maybe
	}
	return o.at(in).set
}

// parent returns the value that has the member at the path. It reports false if there is no
// variable, or if a step is not in an object.
func (o *operand) parent(in *inputs) (wire.Value, bool) {
	v := &in.vars
	var at wire.Value
	switch o.source {
	case arguments:
		if at = in.arguments(); at.Exists() && at.Kind() != '{' && at.Kind() != 'n' {
			return at, false
		}
	case annotations:
		if !v.is(o.kind) || v.about == nil {
			return at, false
		}
		at = wire.ValueOf(v.about).Get("annotations")
	default:
		at = wire.ValueOf(v.caller.Principal.Claims)
	}
	if at.Kind() != '{' {
		at = wire.Value{} // an empty object
	}
	for _, name := range o.path[:len(o.path)-1] {
		if at = at.Get(name); !at.Exists() {
			return at, false
		}
	}
	return at, true
}

// arguments returns the arguments of the request.
func (in *inputs) arguments() wire.Value {
	if !in.asked {
		in.args, in.asked = wire.ValueOf(in.vars.req.Params).Get("arguments"), true
	}
	return in.args
}
