package policy

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"mcpgateway/internal/wire"
)

// quick is a condition, or a part of one, that is evaluated without the library. It reads
// JSON where it is, so it neither converts arguments nor allocates, and takes a tenth of the
// time. It knows comparisons of members and fields with constants and with each other, tests of
// text and of presence, and what joins them. Its outcome is that of the library for every
// input that is small enough to stay below the limit on the cost.
type quick struct {
	op          operator
	parts       []*quick // of all, any and not
	left, right operand
	texts       []string // of oneOf
}

// operator is the operation of a quick.
type operator uint8

const (
	all     operator = iota // parts
	any_                    // parts
	not                     // part
	isTrue                  // left
	isSet                   // left
	equal                   // left, right
	differ                  // left, right
	less                    // left, right
	atMost                  // left, right
	more                    // left, right
	atLeast                 // left, right
	begins                  // left with right
	ends                    // left with right
	holds                   // left, right
	oneOf                   // left among texts
	member                  // right among the texts that left is
)

// comparisons are the operators with two operands, by the name of the function in the library.
var comparisons = map[string]operator{
	operators.Equals: equal, operators.NotEquals: differ,
	operators.Less: less, operators.LessEquals: atMost, operators.Greater: more, operators.GreaterEquals: atLeast,
	overloads.StartsWith: begins, overloads.EndsWith: ends, overloads.Contains: holds,
}

// maxQuick bounds each of the texts that a quick reads, in bytes.
const maxQuick = 16 << 10

// quickOf returns the quick form of a condition, nil for none.
func quickOf(tree *cel.Ast) *quick {
	q := compileQuick(tree.NativeRep().Expr())
	if q == nil {
		return nil
	}
	if c, err := environment.EstimateCost(tree, anySize{}); err != nil || c.Max > maxCost {
		return nil // the library might refuse to evaluate it
	}
	return q
}

// anySize estimates the size of everything as maxQuick.
type anySize struct{}

// EstimateSize implements cost.Estimator.
func (anySize) EstimateSize(e cost.AstNode) *cost.SizeEstimate {
	if x := e.Expr(); x != nil && x.Kind() == ast.LiteralKind {
		return nil // it is known
	}
	return &cost.SizeEstimate{Max: maxQuick}
}

// EstimateCallCost implements cost.Estimator.
func (anySize) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// compileQuick returns the quick form of an expression, nil for none.
func compileQuick(e ast.Expr) *quick {
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
		left, ok := memberOf(e.AsSelect().Operand(), e.AsSelect().FieldName())
		if !ok {
			return nil
		}
		return &quick{op: isSet, left: left}
	}
	if left, ok := operandOf(e); ok {
		return &quick{op: isTrue, left: left}
	}
	if e.Kind() != ast.CallKind {
		return nil
	}
	c := e.AsCall()
	operands := c.Args()
	if c.IsMemberFunction() {
		operands = append([]ast.Expr{c.Target()}, operands...)
	}
	switch f := c.FunctionName(); f {
	case operators.LogicalAnd:
		return joinQuick(all, operands)
	case operators.LogicalOr:
		return joinQuick(any_, operands)
	case operators.LogicalNot:
		return joinQuick(not, operands)
	case operators.In:
		return membership(operands[0], operands[1])
	default:
		op, ok := comparisons[f]
		if !ok || len(operands) != 2 {
			return nil
		}
		q := &quick{op: op}
		var isLeft, isRight bool
		if q.left, isLeft = operandOf(operands[0]); !isLeft {
			return nil
		}
		if q.right, isRight = operandOf(operands[1]); !isRight || q.left.source.isJSON() && q.right.source.isJSON() {
			return nil
		}
		if q.op >= begins && q.right.constant.kind != text {
			return nil
		}
		return q
	}
}

// joinQuick returns the quick form of a logical operator, nil if a part has none.
func joinQuick(op operator, parts []ast.Expr) *quick {
	q := &quick{op: op}
	for _, p := range parts {
		part := compileQuick(p)
		switch {
		case part == nil:
			return nil
		case part.op == op && op != not:
			q.parts = append(q.parts, part.parts...)
		default:
			q.parts = append(q.parts, part)
		}
	}
	return q
}

// membership returns the quick form of "left in right", nil for none.
func membership(left, right ast.Expr) *quick {
	l, ok := operandOf(left)
	if !ok {
		return nil
	}
	if right.Kind() == ast.ListKind && len(right.AsList().OptionalIndices()) == 0 {
		q := &quick{op: oneOf, left: l}
		for _, el := range right.AsList().Elements() {
			c, ok := operandOf(el)
			if !ok || c.constant.kind != text {
				return nil
			}
			q.texts = append(q.texts, c.constant.text)
		}
		return q
	}
	if r, ok := readOperand(right); ok && !r.size && l.constant.kind == text && (r.source == groups || r.source == scopes) {
		return &quick{op: member, left: r, right: l}
	}
	return nil
}

// eval evaluates the condition. An outcome that depends on something unknown is maybe.
func (q *quick) eval(in *inputs) outcome {
	switch q.op {
	case all:
		return q.join(in, no)
	case any_:
		return q.join(in, yes)
	case not:
		switch o := q.parts[0].eval(in); o {
		case yes:
			return no
		case no:
			return yes
		default:
			return o
		}
	case isTrue:
		return q.left.eval(in, &value{}).truth()
	case isSet:
		return q.left.isSet(in)
	case oneOf, member:
		return q.isMember(in)
	default:
		l, r := q.left.eval(in, &value{}), q.right.eval(in, &value{})
		switch equality := q.op == equal || q.op == differ; { // as the library has it
		case l.kind == failing, r.kind == failing && (equality || l.kind != unknown):
			return failed
		case l.kind == unknown, r.kind == unknown:
			return maybe
		}
		return q.compare(l, r)
	}
}

// join evaluates the parts until one decides. One that is unknown matters more than one that
// fails.
func (q *quick) join(in *inputs, decides outcome) outcome {
	out := yes + no - decides
	for _, p := range q.parts {
		switch o := p.eval(in); {
		case o == decides:
			return decides
		case o == maybe, o == failed && out != maybe:
			out = o
		}
	}
	return out
}

func (q *quick) isMember(in *inputs) outcome {
	v := q.left.eval(in, &value{})
	switch {
	case v.kind == failing:
		return failed
	case v.kind == unknown:
		return maybe
	case q.op == member:
		return outcomeOf(slices.Contains(v.texts, q.right.constant.text))
	}
	return outcomeOf(slices.ContainsFunc(q.texts, v.is))
}

// compare compares two known values.
func (q *quick) compare(l, r *value) outcome {
	switch q.op {
	case equal:
		return outcomeOf(l.equals(r))
	case differ:
		return outcomeOf(!l.equals(r))
	case less, atMost, more, atLeast:
		c, ok := l.compare(r)
		switch {
		case !ok:
			return failed
		case q.op == less:
			return outcomeOf(c < 0)
		case q.op == atMost:
			return outcomeOf(c <= 0)
		case q.op == more:
			return outcomeOf(c > 0)
		}
		return outcomeOf(c >= 0)
	}
	switch text, ok := l.bytes(); {
	case !ok:
		return failed
	case q.op == begins:
		return outcomeOf(len(text) >= len(r.text) && string(text[:len(r.text)]) == r.text)
	case q.op == ends:
		return outcomeOf(len(text) >= len(r.text) && string(text[len(text)-len(r.text):]) == r.text)
	default:
		return outcomeOf(bytes.Contains(text, []byte(r.text)))
	}
}

func outcomeOf(b bool) outcome {
	if b {
		return yes
	}
	return no
}

// value is the value of an operand.
type value struct {
	kind  valueKind
	text  string     // of a text
	texts []string   // of a list of texts
	n     int64      // of an integer
	json  wire.Value // of a value in JSON
}

type valueKind uint8

const (
	failing  valueKind = iota // it cannot be read
	unknown                   // it depends on something unknown
	text                      // text
	textList                  // texts
	integer                   // n
	boolean                   // n is 1 for true
	null                      // nothing
	number                    // json, a number that is no integer
	document                  // json, of another kind
)

// valueOf returns the value of JSON. Text stays where it is.
func valueOf(v wire.Value) value {
	switch v.Kind() {
	case 0:
		return value{}
	case '0':
		if n, ok := v.Int(); ok {
			return value{kind: integer, n: n}
		}
		if _, err := strconv.ParseFloat(string(v.Raw()), 64); err != nil {
			return value{}
		}
		return value{kind: number, json: v}
	case 't':
		return value{kind: boolean, n: 1}
	case 'f':
		return value{kind: boolean}
	case 'n':
		return value{kind: null}
	default:
		return value{kind: document, json: v}
	}
}

func (v *value) truth() outcome {
	switch v.kind {
	case unknown:
		return maybe
	case boolean:
		return outcomeOf(v.n == 1)
	default:
		return failed
	}
}

// is reports whether the value is this text.
func (v *value) is(s string) bool {
	return v.kind == text && v.text == s || v.kind == document && v.json.IsString(s)
}

// bytes returns the text of the value, and whether it is text.
func (v *value) bytes() ([]byte, bool) {
	switch {
	case v.kind == text:
		return []byte(v.text), true
	case v.json.Kind() != '"':
		return nil, false
	}
	raw := v.json.Raw()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], true
	}
	return []byte(v.json.Str()), true
}

// equals reports whether two values are equal. Values of different types are not.
func (v *value) equals(other *value) bool {
	switch {
	case other.kind == text:
		return v.is(other.text)
	case v.kind == text:
		return other.is(v.text)
	case v.kind == number && other.kind == integer:
		return v.float() == types.Double(other.n) && v.float().Equal(types.Int(other.n)) == types.True
	case other.kind == number && v.kind == integer:
		return other.equals(v)
	}
	return v.kind == other.kind && v.kind != document && v.kind != number && v.n == other.n
}

// compare compares two numbers or two texts. It reports false for other values.
func (v *value) compare(other *value) (int, bool) {
	switch {
	case v.kind == other.kind && (v.kind == integer || v.kind == boolean):
		return cmp.Compare(v.n, other.n), true
	case v.kind == number && other.kind == integer:
		return int(v.float().Compare(types.Int(other.n)).(types.Int)), true
	case v.kind == integer && other.kind == number:
		c, ok := other.compare(v)
		return -c, ok
	}
	a, isText := v.bytes()
	b, both := other.bytes()
	return bytes.Compare(a, b), isText && both
}

func (v *value) float() types.Double {
	f, _ := strconv.ParseFloat(string(v.json.Raw()), 64) // valueOf has tried it
	return types.Double(f)
}

// length returns the size of a text or a list, which is unknown or fails for other values.
func (v *value) length() value {
	switch {
	case v.kind == unknown, v.kind == failing:
		return value{kind: v.kind}
	case v.kind == text:
		return value{kind: integer, n: int64(utf8.RuneCountInString(v.text))}
	case v.kind == textList:
		return value{kind: integer, n: int64(len(v.texts))}
	}
	var n int64
	switch v.json.Kind() {
	case '"':
		b, _ := v.bytes()
		n = int64(utf8.RuneCount(b))
	case '[':
		for range v.json.Elements() {
			n++
		}
	case '{':
		for range v.json.Members() {
			n++
		}
	default:
		return value{}
	}
	return value{kind: integer, n: n}
}
