package toolschema

import "errors"

// MaxUpstreamNodes is the budget of one upstream: objects and arrays of all its schemas.
// Compiling one of them takes about 30 µs, once.
const MaxUpstreamNodes = 50_000

// ErrBudget says that the schemas of an upstream exceed its budget.
var ErrBudget = errors.New("the schemas of this upstream are too large together")

// Budget bounds the cost of the schemas of one upstream in one build of the catalog. A
// nil Budget has no bound.
type Budget struct{ left int }

// NewBudget returns the budget of one upstream.
func NewBudget() *Budget { return &Budget{MaxUpstreamNodes} }

// Compile compiles a schema, and returns its cost. The error is ErrBudget if the schema
// exceeds the budget, and that of [Schema.Err] otherwise.
func (b *Budget) Compile(s *Schema) (cost int, err error) {
	if !b.Spend(s.nodes) {
		return 0, ErrBudget
	}
	err = s.Err()
	if b != nil {
		b.left -= s.patternNodes // known after compiling only
	}
	return s.nodes + s.patternNodes, err
}

// Spend spends a cost that Compile has returned before. It reports false if the cost
// exceeds the budget.
func (b *Budget) Spend(cost int) bool {
	if b == nil {
		return true
	}
	if b.left < cost {
		return false
	}
	b.left -= cost
	return true
}
