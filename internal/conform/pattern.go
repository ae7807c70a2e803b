package conform

import (
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// pattern compiles a regular expression. The specification means those of
// ECMA-262; one that the linear engine does not have matches everything.
func (p *program) pattern(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPatternBytes {
		return lenient{text}, nil
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return lenient{text}, nil
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil || p.insts+len(prog.Inst) > maxPatternInsts {
		return lenient{text}, nil
	}
	p.insts += len(prog.Inst)
	re, err := regexp.Compile(text)
	if err != nil {
		return lenient{text}, nil
	}
	return &bounded{re, p, len(prog.Inst)}, nil
}

// lenient is a pattern that nothing is held against.
type lenient struct{ text string }

func (l lenient) String() string          { return l.text }
func (l lenient) MatchString(string) bool { return true }

// bounded is a pattern whose use is counted.
type bounded struct {
	*regexp.Regexp
	p     *program
	insts int
}

func (b *bounded) MatchString(s string) bool {
	b.p.spend(1 + len(s)*b.insts/patternStep)
	return b.Regexp.MatchString(s)
}
