package toolschema

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// step counts the steps of one schema object before the library applies it. It replaces
// keywords whose cost depends on the whole value.
type step struct {
	p      *program
	cost   int
	unique bool
	enum   []any // nil for none
	weight int   // the cost of comparing with enum
	single bool  // enum is const
}

// takeOver returns the step of a schema object, and removes the replaced keywords from
// the compiled schema.
func (p *program) takeOver(s *jsonschema.Schema, obj map[string]any) *step {
	st := &step{p: p, cost: stepsOf(obj), unique: s.UniqueItems}
	s.UniqueItems = false
	if s.Enum != nil {
		st.enum, s.Enum = s.Enum.Values, nil
	}
	if s.Const != nil {
		// A schema with both is rare. const is narrower.
		st.enum, st.single, s.Const = []any{*s.Const}, true, nil
	}
	for _, v := range st.enum {
		st.weight += weigh(v)
	}
	if s.Format != nil && s.Format.Name == "regex" {
		s.Format = nil // compiling patterns of values is too costly
	}
	return st
}

func (s *step) Validate(ctx *jsonschema.ValidatorContext, v any) {
	width := 1
	switch v := v.(type) {
	case map[string]any:
		width += len(v)
	case []any:
		width += len(v)
		if s.unique {
			s.p.spend(weigh(v))
			if i, j, err := ctx.Duplicates(v); err == nil && i >= 0 {
				ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{i, j}})
			}
		}
	}
	s.p.spend(s.cost + width)
	if s.enum == nil {
		return
	}
	s.p.spend(s.weight)
	for _, want := range s.enum {
		if same, err := ctx.Equals(v, want); same || err != nil {
			return
		}
	}
	if s.single {
		ctx.AddError(&kind.Const{Got: v, Want: s.enum[0]})
		return
	}
	ctx.AddError(&kind.Enum{Got: v, Want: s.enum})
}

// stepsOf returns the number of members and elements of the keywords of a schema object.
func stepsOf(obj map[string]any) int {
	n := 1
	for _, v := range obj {
		switch v := v.(type) {
		case map[string]any:
			n += len(v)
		case []any:
			n += len(v)
		}
	}
	return n
}

// weigh returns the number of steps to look at a whole value.
func weigh(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for key, el := range v {
			n += weigh(el) + len(key)/stringStep
		}
	case []any:
		for _, el := range v {
			n += weigh(el)
		}
	case string:
		n += len(v) / stringStep
	}
	return n
}
