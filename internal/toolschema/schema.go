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

// Bounds on schemas. A schema that exceeds them is not checked, and nothing is refused
// because of it.
const (
	maxSchemaBytes = 256 << 10
	maxSchemaNodes = 2000 // objects and arrays, an upper bound of subschemas
	maxSchemaDepth = 64
	maxSteps       = 100_000 // steps of one validation: at most a tenth of a second
	stringStep     = 1 << 9  // bytes that cost one step when strings are compared
)

// The cost of compiling patterns, in nodes.
const (
	instsPerNode  = 32
	nodesPerClass = 2
)

// errUnchecked says that something is too large or too costly to check. It does not mean
// that the value is invalid.
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

// Err compiles the schema if necessary, and returns the reason why it is invalid.
// [IsUnchecked] reports true for the error of a schema that is too large to compile.
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

// IsUnchecked reports whether an error says that a schema or a value is too large or too
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

// take returns a program for exclusive use: a free one, a new one, or the next one that
// becomes free.
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

// program is a compiled schema. One goroutine uses it at a time, since it counts steps.
type program struct {
	schema *jsonschema.Schema
	steps  int // remaining steps
	// The cost of its patterns: instructions, including those of rejected patterns, and
	// Unicode classes.
	insts, classes int
	patterns       map[string]jsonschema.Regexp // by text
}

// outOfSteps is the panic that ends a validation with too many steps.
type outOfSteps struct{}

// spend spends steps. The library calls it for every schema object that it applies, so no
// schema can avoid it.
func (p *program) spend(steps int) {
	if p.steps -= steps; p.steps < 0 {
		panic(outOfSteps{})
	}
}

func (p *program) check(v any) (err error) {
	p.steps = maxSteps
	defer func() {
		switch r := recover().(type) {
		case nil:
		case outOfSteps:
			err = fmt.Errorf("%w: the check takes too many steps", errUnchecked)
		default:
			// A panic of the library must not stop the gateway.
			err = fmt.Errorf("%w: %v", errUnchecked, r)
		}
	}()
	verr, ok := errors.AsType[*jsonschema.ValidationError](p.schema.Validate(v))
	if !ok {
		return nil
	}
	if hasRefCycle(verr, 0) {
		return fmt.Errorf("%w: the schema refers to itself in a circle", errUnchecked)
	}
	return newValidationError(verr)
}

// schemaURL is the URL of the only document of a compiler. No other document can be
// loaded.
const schemaURL = "mcp:///schema"

// refusingLoader refuses to load documents.
type refusingLoader struct{}

func (refusingLoader) Load(string) (any, error) {
	return nil, errors.New("references out of a schema are never followed")
}

// compile compiles a schema. With some errors it also returns a program, which tells the
// cost.
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
	// Before 2025-11-25 no revision names a dialect. Many authors use draft 7 without
	// $schema, in which items may be an array.
	if old, oldErr := compileAs(jsonschema.Draft7, doc); oldErr == nil {
		old.insts, old.classes = old.insts+p.insts, old.classes+p.classes
		return old, nil
	}
	return p, err
}

// compileAs compiles a schema in this dialect, unless $schema names another one.
func compileAs(dialect *jsonschema.Draft, doc any) (*program, error) {
	p := &program{steps: maxSteps}
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

// anything is the schema of our vocabulary, which has no keywords.
var anything = func() *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.UseLoader(refusingLoader{})
	if err := c.AddResource("mcp:///anything", true); err != nil {
		panic(err)
	}
	return c.MustCompile("mcp:///anything")
}()

// countNodes returns an upper bound of the objects and arrays of a document: it also
// counts braces and brackets in strings.
func countNodes(raw wire.Raw) int {
	n := 0
	for _, c := range raw {
		if c == '{' || c == '[' {
			n++
		}
	}
	return n
}

// depth returns the depth of a document, at most maxSchemaDepth+1.
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
