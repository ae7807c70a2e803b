package toolschema

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// step counts what it takes to hold a value against one schema object, before
// it is done. It stands in for the keywords whose cost is that of a whole value.
type step struct {
	p      *program
	cost   int
	unique bool
	enum   []any // nil for none
	weight int   // of enum
	single bool  // enum is that of const
}

// takeOver makes the step of a schema object. What the step does itself is taken
// out of the compiled schema.
func (p *program) takeOver(s *jsonschema.Schema, obj map[string]any) *step {
	st := &step{p: p, cost: stepsOf(obj), unique: s.UniqueItems}
	s.UniqueItems = false
	if s.Enum != nil {
		st.enum, s.Enum = s.Enum.Values, nil
	}
	if s.Const != nil {
		// Both at once are rare; the narrower one decides.
		st.enum, st.single, s.Const = []any{*s.Const}, true, nil
	}
	for _, v := range st.enum {
		st.weight += weigh(v)
	}
	if s.Format != nil && s.Format.Name == "regex" {
		s.Format = nil // compiling what a value holds is not worth it
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

// stepsOf returns how many things a schema object itself has to look at.
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

// weigh returns how many steps it takes to look at the whole of a value.
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
