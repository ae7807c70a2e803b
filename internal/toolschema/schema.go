package toolschema

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mcpgateway/internal/wire"
)

// Bounds on schemas, which come from upstreams. What exceeds them is not
// checked; nothing is refused for it.
const (
	maxSchemaBytes = 256 << 10
	maxSchemaNodes = 2000 // objects and arrays, which bounds subschemas
	maxSchemaDepth = 64
	maxSchemaWork  = 100_000 // steps of one validation: a tenth of a second at worst
	stringStep     = 1 << 9  // bytes that count as one step where strings are compared
)

// What patterns cost to compile, beside a node.
const (
	instsPerNode  = 32
	nodesPerClass = 2
)

// errUnchecked marks what is too large or too costly to be checked. It is no
// fault of the value.
var errUnchecked = errors.New("not checked")

// Schema is a JSON Schema that an upstream sent. Its dialect is the one that $schema
// names, else 2020-12, or draft 7 if it compiles in that dialect only. References to other
// documents are never followed. A Schema is compiled when it is first needed, and is safe
// for concurrent use.
type Schema struct {
	raw          wire.Raw
	once         sync.Once
	err          error             // why it does not compile; set by once
	free         chan *program     // programs that no goroutine runs
	seats        chan struct{}     // one for each program that may still be compiled
	nodes        int               // objects and arrays
	patternNodes int               // the cost of its patterns, in nodes; set by once
	key          [sha256.Size]byte // in a Cache
}

// New returns the schema with this text, which must be valid JSON.
func New(raw wire.Raw) *Schema {
	most := runtime.GOMAXPROCS(0)
	s := &Schema{raw: raw, free: make(chan *program, most), seats: make(chan struct{}, most), nodes: countNodes(raw)}
	for range most {
		s.seats <- struct{}{}
	}
	return s
}

// Fault returns why the schema is none, nil when it is one. A schema that is
// too large to be looked at has an error for which [Unchecked] is true.
func (s *Schema) Err() error {
	s.once.Do(func() {
		p, err := compile(s.raw, s.nodes)
		if p != nil {
			s.patternNodes = p.insts/instsPerNode + p.classes*nodesPerClass
		}
		if s.err = err; err == nil {
			<-s.seats
			s.free <- p
		}
	})
	return s.err
}

// Unchecked reports whether an error says that something was too large or too
// costly to check.
func IsUnchecked(err error) bool { return errors.Is(err, errUnchecked) }

// Validate checks a value, valid JSON, against the schema. The error is a
// [*ValidationError] if the value does not match. [IsUnchecked] reports true for the error
// if the check exceeds the bounds or the schema is invalid.
func (s *Schema) Validate(value wire.Raw) error {
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: the schema: %w", errUnchecked, err)
	}
	if len(value) > maxInstanceBytes {
		return fmt.Errorf("%w: it is larger than %d KiB", errUnchecked, maxInstanceBytes>>10)
	}
	v, err := decode(value)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnchecked, err)
	}
	p, err := s.take()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnchecked, err)
	}
	defer func() { s.free <- p }()
	return p.check(v)
}

// take returns a program that nobody else runs: a free one, else a new one, else
// the next that becomes free.
func (s *Schema) take() (*program, error) {
	select {
	case p := <-s.free:
		return p, nil
	default:
	}
	select {
	case p := <-s.free:
		return p, nil
	case <-s.seats:
		p, err := compile(s.raw, s.nodes)
		if err != nil {
			s.seats <- struct{}{}
		}
		return p, err
	}
}

// program is a compiled schema that one goroutine runs at a time, since it
// counts what it does.
type program struct {
	schema *jsonschema.Schema
	work   int // steps that are left
	// Of its patterns so far: instructions, also of those that are too many, and
	// classes of Unicode.
	insts, classes int
	patterns       map[string]jsonschema.Regexp // by text
}

// spent ends a validation that has taken too many steps.
type spent struct{}

// spend takes steps. The library calls it for every schema object that a value
// is held against, however that came about, so no schema is too clever for it.
func (p *program) spend(steps int) {
	if p.work -= steps; p.work < 0 {
		panic(spent{})
	}
}

func (p *program) check(v any) (err error) {
	p.work = maxSchemaWork
	defer func() {
		switch r := recover().(type) {
		case nil:
		case spent:
			err = fmt.Errorf("%w: it takes too many steps", errUnchecked)
		default:
			// A fault of the library must not take the gateway down.
			err = fmt.Errorf("%w: %v", errUnchecked, r)
		}
	}()
	verr, ok := errors.AsType[*jsonschema.ValidationError](p.schema.Validate(v))
	if !ok {
		return nil
	}
	if circles(verr, 0) {
		return fmt.Errorf("%w: it refers to itself in a circle", errUnchecked)
	}
	return newValidationError(verr)
}

// Where the only document of a compiler stands. Nothing else can be loaded.
const schemaURL = "mcp:///schema"

// refusingLoader loads nothing: what a schema refers to is in it, or is no
// business of ours.
type refusingLoader struct{}

func (refusingLoader) Load(string) (any, error) {
	return nil, errors.New("references out of a schema are never followed")
}

// compile makes a program of a schema. With an error that came late there is one
// too, which only says what it has cost.
func compile(raw wire.Raw, weight int) (p *program, err error) {
	if len(raw) > maxSchemaBytes || weight > maxSchemaNodes {
		return nil, fmt.Errorf("%w: it is larger than %d KiB or %d objects and arrays", errUnchecked, maxSchemaBytes>>10, maxSchemaNodes)
	}
	if depth(raw) > maxSchemaDepth {
		return nil, fmt.Errorf("%w: it is nested more than %d deep", errUnchecked, maxSchemaDepth)
	}
	doc, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnchecked, err)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errUnchecked, r)
		}
	}()
	p, err = compileAs(jsonschema.Draft2020, doc)
	if err == nil || wire.ValueOf(raw).Get("$schema").Exists() {
		return p, err
	}
	// No revision before 2025-11-25 says which dialect this is, and many who do not
	// say it either mean the older one, in which items may be a list.
	if old, fault := compileAs(jsonschema.Draft7, doc); fault == nil {
		old.insts, old.classes = old.insts+p.insts, old.classes+p.classes
		return old, nil
	}
	return p, err
}

// compileAs makes a program of a schema that is of this dialect unless it names
// another.
func compileAs(dialect *jsonschema.Draft, doc any) (*program, error) {
	p := &program{work: maxSchemaWork}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(dialect)
	c.UseLoader(refusingLoader{})
	c.UseRegexpEngine(p.pattern)
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL:    "mcp:///steps",
		Schema: anything,
		Compile: func(ctx *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
			return p.takeOver(ctx.Enqueue(nil), obj), nil
		},
	})
	c.AssertVocabs()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return p, err
	}
	schema, err := c.Compile(schemaURL)
	if err != nil {
		return p, compileError(err)
	}
	p.schema = schema
	return p, nil
}

// anything is the schema of the keywords of our vocabulary, of which there are
// none.
var anything = func() *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.UseLoader(refusingLoader{})
	if err := c.AddResource("mcp:///anything", true); err != nil {
		panic(err)
	}
	return c.MustCompile("mcp:///anything")
}()

// countNodes counts the objects and arrays of a document, and more where such
// characters stand in strings.
func countNodes(raw wire.Raw) int {
	n := 0
	for _, c := range raw {
		if c == '{' || c == '[' {
			n++
		}
	}
	return n
}

// depth returns how deep a document is nested, at most one more than the bound.
func depth(raw wire.Raw) int {
	deepest, now, inString := 0, 0, false
	for i := 0; i < len(raw) && deepest <= maxSchemaDepth; i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}
