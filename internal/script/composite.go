package script

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"mcpgateway/internal/wire"
)

// Composite is a tool that a file defines: several calls as one. The file has these globals:
//
//	name          the name of the tool
//	title         optional
//	description   for models
//	input_schema  the JSON Schema of the arguments, an object
//	output_schema optional, of the result
//	annotations   optional
//	tests         optional, see Test
//	def run(…)    gets the arguments by name, and returns the result
//
// A Composite is immutable.
type Composite struct {
	Name       string
	Definition wire.Raw // the tool as lists have it
	// Tools are the names of the tools that its calls name as plain strings.
	Tools []string
	// Warnings are about what in the file has no effect or fails when the tool is called. Each has a line.
	Warnings []*Failure
	tests    []compositeTest
	program  *Program
}

// runFunction is the name of the function of a composite.
const runFunction = "run"

// loadLimits bound the globals of a file.
var loadLimits = Limits{Steps: 1_000_000, Calls: 1, Parallel: 1, Time: 10 * time.Second, Output: 1 << 20}

// noHost is the host while a file is loaded.
type noHost struct{}

var errNoCalls = errors.New("a file calls tools inside of functions only")

func (noHost) Call(context.Context, string, wire.Raw) (wire.Raw, error) { return nil, errNoCalls }
func (noHost) Search(context.Context, wire.Raw) (wire.Raw, error)       { return nil, errNoCalls }
func (noHost) Describe(context.Context, []string) ([]wire.Raw, error)   { return nil, errNoCalls }

// LoadComposite reads the file of a composite. file is its name in messages. The error is
// a *Failure if it has a position.
func LoadComposite(file, source string, clock Clock) (*Composite, error) {
	p, err := compile(file, source, nil)
	if err != nil {
		return nil, err
	}
	c := &Composite{Tools: p.tools, program: p}
	r := NewRun(Options{Host: noHost{}, Limits: loadLimits, Clock: clock})
	_, err = r.do(context.Background(), p, func(globals starlark.StringDict) (starlark.Value, error) {
		return starlark.None, c.read(r, globals)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// read reads the definition of the tool from the globals of the file.
func (c *Composite) read(r *Run, globals starlark.StringDict) error {
	definition := wire.Raw(`{}`)
	for _, g := range []struct {
		global, member string
		text, required bool
	}{
		{"name", "name", true, true},
		{"title", "title", true, false},
		{"description", "description", true, true},
		{"input_schema", "inputSchema", false, true},
		{"output_schema", "outputSchema", false, false},
		{"annotations", "annotations", false, false},
	} {
		v := globals[g.global]
		switch v := v.(type) {
		case nil:
			if g.required {
				return fmt.Errorf("the file does not define %s", g.global)
			}
			continue
		case starlark.String:
			if !g.text || v == "" {
				return fmt.Errorf("%s must be a dict", g.global)
			}
		case *starlark.Dict:
			if g.text {
				return fmt.Errorf("%s must be a string", g.global)
			}
		default:
			return fmt.Errorf("%s is a %s", g.global, v.Type())
		}
		raw, err := r.encode(nil, v, loadLimits.Output)
		if err != nil {
			return fmt.Errorf("%s: %w", g.global, err)
		}
		definition = wire.SetMember(definition, g.member, raw)
	}
	c.Definition = definition
	c.Name = wire.ValueOf(definition).Get("name").Str()
	if kind := wire.ValueOf(definition).Get("inputSchema", "type"); !kind.IsString("object") {
		return errors.New(`input_schema needs "type": "object"`)
	}
	if _, ok := globals[runFunction].(*starlark.Function); !ok {
		return errors.New("the file does not define a function run")
	}
	c.Warnings = c.doubts(c.program.source, globals)
	var err error
	c.tests, err = readTests(r, globals["tests"])
	return err
}

// Do runs the composite with arguments, an object that matches its input schema. The errors
// are those of Run.Do.
func (c *Composite) Do(ctx context.Context, r *Run, arguments wire.Raw) (Result, error) {
	return r.do(ctx, c.program, func(globals starlark.StringDict) (starlark.Value, error) {
		var kwargs []starlark.Tuple
		for m := range wire.ValueOf(arguments).Members() {
			v, err := r.value(m.Value)
			if err != nil {
				return nil, err
			}
			kwargs = append(kwargs, starlark.Tuple{starlark.String(m.Key.Str()), v})
		}
		return starlark.Call(r.thread, globals[runFunction], nil, kwargs)
	})
}
