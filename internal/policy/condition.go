package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Bounds on the text of a condition, and on its evaluation in the units of CEL: one unit
// is about one step or ten bytes read.
const (
	maxCondition = 16 << 10
	maxNodes     = 2000
	maxNesting   = 3 // of comprehensions
	maxRegex     = 1000
	maxCost      = 100_000
)

// Condition is a compiled CEL expression of type bool. It is immutable.
type Condition struct {
	text    string
	program cel.Program
	partial cel.Program // evaluates with unknown values
	quick   *quick      // nil if there is no quick form
	uses    use
	claims  []string // those read by name; useClaims stands for all
}

// Diagnostic is an error or a warning about the text of a condition. Line and column count
// from 1, columns in characters.
type Diagnostic struct {
	Line, Col int
	Msg       string
	// Warning says that the condition can be used nevertheless.
	Warning bool
}

// use says what a condition reads.
type use uint16

const (
	useTool use = 1 << iota
	useResource
	usePrompt
	useArgs
	useAnnotations
	useMethod
	useSubject
	useIssuer
	useGroups
	useScopes
	useClaims
	useProof
	useEra
	useRevision
	useProfile
)

// NewCondition compiles a condition. It returns nil if there are diagnostics.
func NewCondition(text string) (*Condition, []Diagnostic) {
	if len(text) > maxCondition {
		return nil, []Diagnostic{{Line: 1, Col: 1, Msg: fmt.Sprintf("is longer than %d bytes", maxCondition)}}
	}
	tree, issues := environment.Compile(text)
	if issues.Err() != nil {
		var diagnostics []Diagnostic
		for _, e := range issues.Errors() {
			diagnostics = append(diagnostics, Diagnostic{Line: max(1, e.Location.Line()), Col: 1 + max(0, e.Location.Column()), Msg: clean(e.Message)})
		}
		return nil, diagnostics
	}
	if t := tree.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, []Diagnostic{{Line: 1, Col: 1, Msg: fmt.Sprintf("must be true or false, and this is of type %s", t)}}
	}
	c := &Condition{text: text}
	c.uses, c.claims = usesOf(tree.NativeRep().Expr())
	var err, perr error
	c.program, err = environment.Program(tree, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	c.partial, perr = environment.Program(tree, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize, cel.OptPartialEval))
	if err = errors.Join(err, perr); err != nil {
		return nil, []Diagnostic{{Line: 1, Col: 1, Msg: clean(err.Error())}}
	}
	c.quick = quickOf(tree)
	return c, nil
}

// unfinished matches the messages of the library about an incomplete text.
var unfinished = regexp.MustCompile(`^Syntax error: (?:missing ('.*') at|mismatched input|extraneous input|no viable alternative at input) '<EOF>'(?: expecting ('.*'))?$`)

// clean returns a message of the library as one line in the wording of this project.
func clean(msg string) string {
	msg, _, _ = strings.Cut(msg, "\n")
	msg, _, _ = strings.Cut(msg, " expecting {") // a list of all tokens
	if m := unfinished.FindStringSubmatch(msg); m != nil {
		due := "a value or a closing bracket"
		if m[1]+m[2] != "" {
			due = m[1] + m[2]
		}
		return "the condition ends too early: " + due + " is missing at its end"
	}
	if text, ok := strings.CutPrefix(msg, "Syntax error: token recognition error at: '"); ok && strings.ContainsAny(text[:1], `'"`) {
		return "the quote is not closed that opens " + strings.TrimSuffix(text, "'")
	}
	return strings.ReplaceAll(msg, "undeclared reference to", "unknown name")
}

// Check returns the errors and warnings about a condition in a rule that applies to tools,
// resources or prompts.
func Check(text string, tools, resources, prompts bool) []Diagnostic {
	c, diagnostics := NewCondition(text)
	if c == nil {
		return diagnostics
	}
	if c.uses == 0 && c.claims == nil && c.eval(&vars{}) == no {
		return []Diagnostic{{1, 1, "the rule never matches: the condition is false", true}}
	}
	for _, v := range []struct {
		name   string
		reads  use
		others bool
	}{{"tool", useTool, resources || prompts}, {"resource", useResource, tools || prompts}, {"prompt", usePrompt, tools || resources}} {
		if v.others && c.uses&(useTool|useResource|usePrompt) == v.reads {
			msg := "the condition reads " + v.name + ", and the rule is about other kinds too, for which it cannot be evaluated; name only %ss in what"
			diagnostics = append(diagnostics, Diagnostic{1, 1, fmt.Sprintf(msg, v.name), true})
		}
	}
	return diagnostics
}

// outcome is the result of an evaluation.
type outcome uint8

const (
	no outcome = iota
	yes
	maybe  // it depends on something unknown
	failed // it cannot be evaluated
)

// evaluation evaluates conditions with the same variables.
type evaluation struct {
	inputs
	size  outcome // maybe: not known yet; yes: within the bounds of quick conditions
	whole *vars   // for the library, nil before the first condition that needs it
}

func evaluationOf(v vars) evaluation { return evaluation{inputs: inputs{vars: v}, size: maybe} }

// eval evaluates a condition. A nil condition holds.
func (e *evaluation) eval(c *Condition) outcome {
	if c == nil {
		return yes
	}
	if c.quick != nil {
		if e.size == maybe {
			e.size = outcomeOf(e.small())
		}
		if e.size == yes {
			return c.quick.eval(&e.inputs)
		}
	}
	if e.whole == nil { // every member is copied, so that others need no memory
		v := &e.vars
		e.whole = &vars{caller: v.caller, item: v.item, public: v.public, about: v.about, req: v.req, open: v.open}
	}
	return c.eval(e.whole)
}

// eval evaluates the condition with the library.
func (c *Condition) eval(v *vars) outcome {
	var out ref.Val
	var err error
	if v.open != 0 {
		out, _, err = c.partial.Eval(v)
	} else {
		out, _, err = c.program.Eval(v)
	}
	switch {
	case types.IsUnknown(out):
		return maybe
	case err != nil:
		v.failure = err
		return failed
	case out == types.True:
		return yes
	case out == types.False:
		return no
	default:
		v.failure = errors.New("the outcome is neither true nor false")
		return failed
	}
}

// evalForCaller evaluates the condition for all items and requests of a caller. The outcome
// is maybe if it depends on the item or the request. A nil condition holds.
func (c *Condition) evalForCaller(caller *Caller) outcome {
	switch {
	case c == nil:
		return yes
	case c.uses&(useOfCaller|useProfile) == 0 && c.claims == nil && c.uses != 0:
		return maybe // it does not read the caller
	}
	e := evaluationOf(vars{caller: caller, open: openArgs | openItem})
	if caller.Revision == "" {
		e.vars.open |= openClient
	}
	return e.eval(c)
}

var fields = map[string]map[string]use{
	"tool":      {"name": useTool, "native": useTool, "upstream": useTool, "annotations": useTool | useAnnotations},
	"resource":  {"uri": useResource, "native": useResource, "upstream": useResource, "mimeType": useResource | useAnnotations, "annotations": useResource | useAnnotations},
	"prompt":    {"name": usePrompt, "native": usePrompt, "upstream": usePrompt},
	"principal": {"subject": useSubject, "issuer": useIssuer, "groups": useGroups, "scopes": useScopes, "claims": useClaims, "proof": useProof},
	"request":   {"method": useMethod, "era": useEra, "revision": useRevision, "profile": useProfile},
}

// usesOf returns what an expression reads. A variable without a field counts as reading
// all its fields, and claims count as a whole unless they are read by name.
func usesOf(e ast.Expr) (u use, claims []string) {
	known := make(map[int64]bool) // expressions whose fields were counted already
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.CallKind:
			if c := e.AsCall(); c.FunctionName() == operators.Index && len(c.Args()) == 2 && isClaims(c.Args()[0]) && c.Args()[1].Kind() == ast.LiteralKind {
				if name, ok := c.Args()[1].AsLiteral().(types.String); ok {
					claims = append(claims, string(name))
					known[c.Args()[0].ID()] = true
				}
			}
		case ast.SelectKind:
			field, of := e.AsSelect().FieldName(), e.AsSelect().Operand()
			if isClaims(of) {
				claims = append(claims, field)
				known[of.ID()] = true
			}
			if of.Kind() != ast.IdentKind {
				return
			}
			if f, ok := fields[variableOf(of)][field]; ok {
				if !known[e.ID()] {
					u |= f
				}
				known[of.ID()] = true
			}
		case ast.IdentKind:
			name := variableOf(e)
			if name == "args" {
				u |= useArgs
			}
			if !known[e.ID()] {
				for _, f := range fields[name] {
					u |= f
				}
			}
		}
	}))
	return u, claims
}

func variableOf(ident ast.Expr) string { return strings.TrimPrefix(ident.AsIdent(), ".") }

// isClaims reports whether an expression is principal.claims.
func isClaims(e ast.Expr) bool {
	if e.Kind() != ast.SelectKind || e.AsSelect().FieldName() != "claims" {
		return false
	}
	of := e.AsSelect().Operand()
	return of.Kind() == ast.IdentKind && variableOf(of) == "principal"
}
