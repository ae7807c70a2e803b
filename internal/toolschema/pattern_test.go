package toolschema

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// patterned returns a schema with n different patterns.
func patterned(n int, text string) wire.Raw {
	schema := wire.Raw(`{"type":"object","properties":{`)
	for i := range n {
		if i > 0 {
			schema = append(schema, ',')
		}
		schema = fmt.Appendf(schema, `"p%d":{"pattern":%s}`, i, wire.String(text+fmt.Sprint(i)))
	}
	return append(schema, `}}`...)
}

// TestPatternBombs checks that patterns which are costly to compile are not compiled, and
// that the cost of others is counted.
func TestPatternBombs(t *testing.T) {
	for _, tc := range []struct{ name, text string }{
		{"classes of Unicode", strings.Repeat(`\pL\PL`, 80)},
		{"alternatives of them", `^(` + strings.Repeat(`\pL|`, 200) + `)$`},
		{"a few in many patterns", strings.Repeat(`\PL`, maxPatternClasses)},
		{"ranges in which case does not count", `(?i)[` + strings.Repeat(`B-\x{1e942}`, 60) + `]`},
		{"the same in a group", `a(?s-U)b(?-si:[B-\x{1e942}])`},
		{"classes in which case does not count", `(?i)` + strings.Repeat(`\pL`, maxPatternClasses)},
		{"repetitions", `((a?b|c){0,99}){0,9}`},
		{"a long literal, repeated", `(` + strings.Repeat("x", 900) + `){0,999}`},
		{"alternatives", strings.Repeat(`a|b?|`, 190)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := 200
			if strings.Count(tc.text, "{") > 5 { // they count as nodes
				n = 20
			}
			s := New(patterned(n, tc.text))
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			p := <-s.free
			compiled, insts := 0, 0
			for _, re := range p.patterns {
				if b, ok := re.(*bounded); ok {
					compiled++
					insts += b.insts
				}
			}
			classes := compiled * (strings.Count(tc.text, `\p`) + strings.Count(tc.text, `\P`))
			if compiled == len(p.patterns) || insts > maxPatternInsts || classes > maxSchemaClasses {
				t.Errorf("%d of %d patterns are compiled, with %d instructions and %d classes", compiled, len(p.patterns), insts, classes)
			}
			if folds(tc.text) && compiled > 0 {
				t.Error("compiled")
			}
			if want := insts/instsPerNode + classes*nodesPerClass; s.patternNodes < want {
				t.Errorf("it costs %d, want %d or more", s.patternNodes, want)
			}
			s.free <- p
			if err := s.Validate(wire.Raw(`{"p0":"nothing of the kind"}`)); compiled == 0 && err != nil {
				t.Errorf("a pattern that is not compiled is held against a value: %v", err)
			}
		})
	}
}

// TestUsualPatterns checks that ordinary patterns are compiled and applied.
func TestUsualPatterns(t *testing.T) {
	for text, values := range map[string][2]string{ // a value that matches, and one that does not
		`^[a-z][a-z0-9-]{0,62}$`:                         {"a-1", "A"},
		`^[\p{L}\p{N} _'-]{1,64}$`:                       {"Zoë", "a/b"},
		`^(?:\d{1,3}\.){3}\d{1,3}$`:                      {"10.0.0.1", "10.0.0"},
		`(?i)^bearer `:                                   {"BEARER x", "basic x"},
		`^(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]+)$`: {"01234567-0123-0123-0123-0123456789ab", "0123"},
		`^.{1,1000}$`:                                    {"x", ""},
	} {
		s := New(wire.Raw(`{"pattern":` + string(wire.String(text)) + `}`))
		if err := s.Validate(wire.String(values[0])); err != nil {
			t.Errorf("%s: %q: %v", text, values[0], err)
		}
		if err := s.Validate(wire.String(values[1])); err == nil || IsUnchecked(err) {
			t.Errorf("%s: %q fits: %v", text, values[1], err)
		}
	}
}

// TestInstructions compares the bound with the real number of instructions.
func TestInstructions(t *testing.T) {
	for _, text := range []string{
		``, `abc`, `(?i)abc`, `a|b|cd`, `(x|y){500}`, `a{3,900}`, `a{7,}`, `(ab|cd*){0,99}`, `^[a-z]{1,63}(\.[a-z]+)*$`, `((a?)*?){3,}b`,
		strings.Repeat(`a|b?|`, 200), `(?:a{0,30}){0,30}`, `.*(\pL|x|yy){5}\b`, strings.Repeat("(a?)", 200) + "$",
	} {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		const ends = 3 // the instructions fail, match and nop
		if n := instructions(parsed); n+ends < len(prog.Inst) || n > 2*len(prog.Inst)+8 {
			t.Errorf("%s: %d instructions, taken for %d", text, len(prog.Inst), n)
		}
	}
}

// TestPatternsCountAgainstTheBudget checks that the cost of a schema includes its patterns.
func TestPatternsCountAgainstTheBudget(t *testing.T) {
	s := New(patterned(4, `^(a|bc|def){0,400}`))
	cost, err := NewBudget().Compile(s)
	if patterns := cost - s.nodes; err != nil || patterns < 4*400*4/instsPerNode {
		t.Fatalf("%v; its patterns cost %d", err, patterns)
	}
	b := NewBudget()
	n := 0
	for ; err == nil; n++ {
		_, err = b.Compile(s)
	}
	if want := MaxUpstreamNodes/cost + 1; n-1 > want { // the last one exceeds the budget
		t.Errorf("%d schemas are compiled, want at most %d", n-1, want)
	}
}
