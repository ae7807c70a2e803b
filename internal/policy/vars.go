package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// vars are the variables of one evaluation. One value stands for all five variables: the
// static type of a variable selects its fields.
type vars struct {
	caller *Caller
	item   *Item
	public string   // the name or URI that the decision is about
	about  wire.Raw // the item as listed, nil for an unlisted item
	req    Request
	open   open // what is unknown

	args        map[string]any
	claims      map[string]any
	annotations map[string]any
	failure     error
}

// ResolveName implements cel.Activation.
func (v *vars) ResolveName(name string) (any, bool) {
	switch name {
	case "tool", "resource", "prompt", "principal", "request":
		return v, true
	case "args":
		if v.args == nil {
			arguments := wire.ValueOf(v.req.Params).Get("arguments")
			if k := arguments.Kind(); k != '{' && k != 'n' && k != 0 {
				return types.NewErr("the arguments are no object"), true
			}
			v.args = object(arguments)
		}
		return v.args, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (v *vars) Parent() cel.Activation { return nil }

// UnknownAttributePatterns implements cel.PartialActivation.
func (v *vars) UnknownAttributePatterns() []*cel.AttributePatternType { return patterns[v.open] }

// AsPartialActivation implements cel.PartialActivation.
func (v *vars) AsPartialActivation() (cel.PartialActivation, bool) { return v, true }

// open says what is unknown in an evaluation.
type open uint8

const (
	openArgs   open = 1 << iota
	openItem        // what differs between the items and methods of one caller, beside arguments
	openClient      // the revision of the client
)

// patterns are the unknown values in the terms of the library.
var patterns = func() (all [8][]*cel.AttributePatternType) {
	of := map[open][]*cel.AttributePatternType{
		openArgs: {cel.AttributePattern("args")},
		openItem: {
			cel.AttributePattern("tool"), cel.AttributePattern("resource"), cel.AttributePattern("prompt"),
			cel.AttributePattern("request").QualString("method"),
		},
		openClient: {cel.AttributePattern("request").QualString("era"), cel.AttributePattern("request").QualString("revision")},
	}
	for o := range open(len(all)) {
		for part, p := range of {
			if o&part != 0 {
				all[o] = append(all[o], p...)
			}
		}
	}
	return all
}()

// fieldOf returns a field with the value of the getter. The getter returns false if the
// variable does not have the field: a resource has no tool.name.
func fieldOf(t *types.Type, name string, get func(*vars) (any, bool)) *types.FieldType {
	return &types.FieldType{
		Type:  t,
		IsSet: func(target any) bool { v, ok := target.(*vars); return ok && present(get(v)) },
		GetFrom: func(target any) (any, error) {
			v, ok := target.(*vars)
			if !ok {
				return nil, errors.New("no such field")
			}
			value, ok := get(v)
			if !ok {
				return nil, fmt.Errorf("there is no %s here", name)
			}
			return value, nil
		},
	}
}

func present(_ any, ok bool) bool { return ok }

// structs are the types of the variables, by name and field.
var structs = map[string]map[string]*types.FieldType{
	"tool":      itemFields("tool", call.Tool, "name"),
	"resource":  itemFields("resource", call.Resource, "uri"),
	"prompt":    itemFields("prompt", call.Prompt, "name"),
	"principal": principalFields(),
	"request":   requestFields(),
}

func itemFields(variable string, kind call.Kind, id string) map[string]*types.FieldType {
	text := func(name string, get func(*vars) string) *types.FieldType {
		return fieldOf(types.StringType, variable+"."+name, func(v *vars) (any, bool) {
			if !v.is(kind) {
				return nil, false
			}
			return get(v), true
		})
	}
	f := map[string]*types.FieldType{
		id:         text(id, func(v *vars) string { return v.public }),
		"native":   text("native", func(v *vars) string { return v.item.Native }),
		"upstream": text("upstream", func(v *vars) string { return v.item.Upstream }),
	}
	if kind == call.Prompt {
		return f
	}
	f["annotations"] = fieldOf(types.NewMapType(types.StringType, types.DynType), variable+".annotations", func(v *vars) (any, bool) {
		if !v.is(kind) || v.about == nil {
			return nil, false
		}
		if v.annotations == nil {
			v.annotations = object(wire.ValueOf(v.about).Get("annotations"))
		}
		return v.annotations, true
	})
	if kind == call.Resource {
		f["mimeType"] = fieldOf(types.StringType, "resource.mimeType", func(v *vars) (any, bool) {
			if !v.is(kind) || v.about == nil {
				return nil, false
			}
			return wire.ValueOf(v.about).Get("mimeType").Str(), true
		})
	}
	return f
}

// is reports whether the item is of the kind. Templates count as resources.
func (v *vars) is(kind call.Kind) bool {
	return v.item != nil && (v.item.Kind == kind || kind == call.Resource && v.item.Kind == call.Template)
}

func principalFields() map[string]*types.FieldType {
	who := func(name string, t *types.Type, get func(v *vars, p *call.Principal) any) *types.FieldType {
		return fieldOf(t, "principal."+name, func(v *vars) (any, bool) {
			if v.caller == nil {
				return nil, false
			}
			return get(v, v.caller.Principal), true
		})
	}
	texts := types.NewListType(types.StringType)
	return map[string]*types.FieldType{
		"subject": who("subject", types.StringType, func(_ *vars, p *call.Principal) any { return p.Subject }),
		"issuer":  who("issuer", types.StringType, func(_ *vars, p *call.Principal) any { return p.Issuer }),
		"proof":   who("proof", types.StringType, func(_ *vars, p *call.Principal) any { return p.AuthMethod }),
		"groups":  who("groups", texts, func(_ *vars, p *call.Principal) any { return p.Groups }),
		"scopes":  who("scopes", texts, func(_ *vars, p *call.Principal) any { return p.Scopes }),
		"claims": who("claims", types.NewMapType(types.StringType, types.DynType), func(v *vars, p *call.Principal) any {
			if v.claims == nil {
				v.claims = object(wire.ValueOf(p.Claims))
			}
			return v.claims
		}),
	}
}

func requestFields() map[string]*types.FieldType {
	req := func(name string, get func(v *vars) string) *types.FieldType {
		return fieldOf(types.StringType, "request."+name, func(v *vars) (any, bool) {
			if v.caller == nil {
				return nil, false
			}
			return get(v), true
		})
	}
	return map[string]*types.FieldType{
		"method":   req("method", func(v *vars) string { return v.req.Method }),
		"era":      req("era", func(v *vars) string { return v.caller.Revision.Era().String() }),
		"profile":  req("profile", func(v *vars) string { return v.caller.profile }),
		"revision": req("revision", func(v *vars) string { return string(v.caller.Revision) }),
	}
}

// provider provides the types of the variables beside those of CEL.
type provider struct{ types.Provider }

func (p provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := structs[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if s, ok := structs[name]; ok {
		return slices.Sorted(maps.Keys(s)), true
	}
	return p.Provider.FindStructFieldNames(name)
}

func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if s, ok := structs[name]; ok {
		f, ok := s[field]
		return f, ok
	}
	return p.Provider.FindStructFieldType(name, field)
}

func (p provider) NewValue(name string, values map[string]ref.Val) ref.Val {
	if _, ok := structs[name]; ok {
		return types.NewErr("%s is not for conditions to make", name)
	}
	return p.Provider.NewValue(name, values)
}

// environment is the environment in which all conditions are compiled.
var environment = newEnvironment()

func newEnvironment() *cel.Env {
	registry, err := types.NewRegistry()
	if err != nil {
		panic(err) // it has no arguments
	}
	opts := []cel.EnvOption{
		cel.CustomTypeAdapter(registry),
		cel.CustomTypeProvider(provider{registry}),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		cel.ParserExpressionSizeLimit(maxCondition),
		cel.ExpressionNodeLimit(maxNodes),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(),
			cel.ValidateComprehensionNestingLimit(maxNesting)),
		cel.RegexProgramSizeLimit(maxRegex),
	}
	for name := range structs {
		opts = append(opts, cel.Variable(name, cel.ObjectType(name)))
	}
	env, err := cel.NewEnv(opts...)
	if err != nil {
		panic(fmt.Sprintf("policy: the environment of conditions: %v", err)) // its input is constant
	}
	return env
}

// object returns the members of a JSON object for CEL, none for another value.
func object(v wire.Value) map[string]any {
	out := make(map[string]any)
	for m := range v.Members() {
		if key := m.Key.Str(); out[key] == nil { // of members with the same name, the first one counts, as in package wire
			out[key] = native(m.Value)
		}
	}
	return out
}

// native returns a JSON value for CEL. Every number with an integral value is an integer.
func native(v wire.Value) any {
	switch v.Kind() {
	case '{':
		return object(v)
	case '[':
		out := []any{}
		for el := range v.Elements() {
			out = append(out, native(el))
		}
		return out
	case '"':
		return v.Str()
	case '0':
		if n, ok := v.Int(); ok {
			return n
		}
		f, err := strconv.ParseFloat(string(v.Raw()), 64)
		if err != nil {
			return types.NewErr("a number is out of range")
		}
		return f
	case 't', 'f':
		return v.Bool()
	default:
		return types.NullValue
	}
}
