package toolschema

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on regular expressions. They limit the cost of compiling: a Unicode class has
// hundreds of ranges, and in case-insensitive patterns every letter of a range is
// expanded.
const (
	maxPatternBytes   = 1 << 10
	maxPatternClasses = 16     // Unicode classes in one pattern
	maxSchemaClasses  = 256    // Unicode classes in all patterns of a schema
	maxPatternInsts   = 20_000 // instructions of all patterns of a schema
	matchStep         = 1 << 7 // bytes times instructions that count as one step
)

// pattern compiles a regular expression. Schemas use those of ECMA-262. A pattern that Go
// does not support, or that is too costly, matches everything.
func (p *program) pattern(text string) (jsonschema.Regexp, error) {
	if p.patterns[text] == nil { // the library compiles each pattern twice
		if p.patterns == nil {
			p.patterns = make(map[string]jsonschema.Regexp)
		}
		p.patterns[text] = p.newPattern(text)
	}
	return p.patterns[text], nil
}

func (p *program) newPattern(text string) jsonschema.Regexp {
	classes := strings.Count(text, `\p`) + strings.Count(text, `\P`)
	p.classes += classes
	if len(text) > maxPatternBytes || classes > maxPatternClasses || p.classes > maxSchemaClasses || p.insts > maxPatternInsts || folds(text) {
		return lenient{text}
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		p.insts += len(text)
		return lenient{text}
	}
	insts := instructions(parsed)
	if p.insts += insts; p.insts > maxPatternInsts {
		return lenient{text}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return lenient{text}
	}
	return &bounded{re, p, insts}
}

// folds reports whether a pattern has character classes and a flag for
// case-insensitivity, which ECMA-262 does not have.
func folds(text string) bool {
	if !strings.Contains(text, "[") && !strings.Contains(text, `\p`) && !strings.Contains(text, `\P`) {
		return false
	}
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "(?")
		if !found {
			return false
		}
		flags := after[:len(after)-len(strings.TrimLeft(after, "imsU-"))]
		if strings.Contains(flags, "i") {
			return true
		}
		rest = after
	}
}

// instructions returns an upper bound of the instructions of a compiled regular
// expression, at most [maxPatternInsts]+1.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCapture:
		n += 2
	case syntax.OpAlternate:
		n += len(re.Sub)
	case syntax.OpRepeat:
		if n++; re.Max != re.Min {
			n++
		}
		n *= max(re.Max, re.Min+1)
	case syntax.OpConcat:
	default:
		n++
	}
	return min(n, maxPatternInsts+1)
}

// lenient is a pattern that matches everything.
type lenient struct{ text string }

func (l lenient) String() string          { return l.text }
func (l lenient) MatchString(string) bool { return true }

// bounded is a pattern that counts its steps.
type bounded struct {
	*regexp.Regexp
	p     *program
	insts int
}

func (b *bounded) MatchString(s string) bool {
	b.p.spend(1 + (len(s)+1)*b.insts/matchStep)
	return b.Regexp.MatchString(s)
}
