package script

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"mcpgateway/internal/plaintext"
)

// Failure says where and why a script failed, so that a model can correct it.
type Failure struct {
	Message string
	// Cause is what the script says of its failure with fail, or what the tool said that failed, in its own
	// words; "" for a failure of the script itself.
	Cause   string
	Hint    string // how to correct the script, "" if nothing is known
	Line    int    // from 1; 0 if the failure belongs to no line
	Column  int
	Source  string  // the text of the line
	Callers []Frame // the calls of functions that led to the line, innermost first
	// Output is the output of the script before it failed, within the bound.
	Output string
}

// Frame is one call of a function of the script.
type Frame struct {
	Function string
	Line     int // the line of the call
}

// Error returns the message with its position.
func (f *Failure) Error() string {
	if f.Line == 0 {
		return readable(f.Message)
	}
	return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, readable(f.Message))
}

// Text returns everything that a model needs to correct the script, in several lines.
func (f *Failure) Text() string {
	var b strings.Builder
	b.WriteString("The script failed")
	if f.Line > 0 {
		fmt.Fprintf(&b, " at line %d, column %d", f.Line, f.Column)
	}
	fmt.Fprintf(&b, ": %s\n", readable(f.Message))
	if f.Source != "" {
		fmt.Fprintf(&b, "    %d | %s\n", f.Line, readable(f.Source))
	}
	for _, c := range f.Callers {
		fmt.Fprintf(&b, "  called as %s() at line %d\n", readable(c.Function), c.Line)
	}
	if f.Hint != "" {
		fmt.Fprintf(&b, "Hint: %s\n", f.Hint)
	}
	if f.Output != "" {
		fmt.Fprintf(&b, "It had printed:\n%s", f.Output)
	}
	return strings.TrimRight(b.String(), "\n")
}

const (
	maxMessage = 2000 // bytes of a message
	maxSource  = 160  // bytes of a line that is quoted
	maxCallers = 8
)

// clip returns the beginning of a text that is over max bytes, cut between characters.
func clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return plaintext.Truncate(s, max) + "…"
}

// readable leaves out what nobody can see in a text, such as the control characters of terminals: a
// message may repeat what the script or a tool wrote.
func readable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && !plaintext.IsInvisible(r) {
			return r
		}
		return -1
	}, s)
}

// causedError is an error with a cause, see [Failure].
type causedError struct{ message, cause string }

func (e *causedError) Error() string { return e.message }

// failureAt returns a failure at a position of a source.
func failureAt(source string, pos syntax.Position, message string) *Failure {
	f := &Failure{Message: clip(message, maxMessage), Line: int(pos.Line), Column: int(pos.Col)}
	f.Source = lineOf(source, f.Line)
	f.Hint = hint(f.Message, f.Source)
	return f
}

// lineOf returns a line of a source, without the white space around it.
func lineOf(source string, line int) string {
	for range line - 1 {
		_, rest, found := strings.Cut(source, "\n")
		if !found {
			return ""
		}
		source = rest
	}
	text, _, _ := strings.Cut(source, "\n")
	return clip(strings.TrimSpace(text), maxSource)
}

// compileFailure turns an error of the parser or the resolver into a failure.
func compileFailure(source string, err error) *Failure {
	if e, ok := errors.AsType[*Failure](err); ok {
		return e
	}
	if e, ok := errors.AsType[syntax.Error](err); ok {
		return failureAt(source, e.Pos, e.Msg)
	}
	if list, ok := errors.AsType[resolve.ErrorList](err); ok && len(list) > 0 {
		return failureAt(source, list[0].Pos, list[0].Msg)
	}
	return &Failure{Message: clip(err.Error(), maxMessage)}
}

// runFailure turns an error of the interpreter into a failure at the innermost position
// that is in the script.
func (p *Program) runFailure(err error) *Failure {
	message := err.Error()
	eval, ok := errors.AsType[*starlark.EvalError](err)
	if !ok {
		return &Failure{Message: clip(message, maxMessage), Hint: hint(message, "")}
	}
	var f *Failure
	for i := range eval.CallStack {
		frame := eval.CallStack.At(i)
		switch {
		case frame.Pos.Filename() != p.name:
		case f == nil:
			f = failureAt(p.source, frame.Pos, message)
			if frame.Name != scriptFunction {
				f.Callers = append(f.Callers, Frame{Function: clip(frame.Name, 60)})
			}
		default:
			if n := len(f.Callers); n > 0 {
				f.Callers[n-1].Line = int(frame.Pos.Line)
			}
			if frame.Name != scriptFunction && len(f.Callers) < maxCallers {
				f.Callers = append(f.Callers, Frame{Function: clip(frame.Name, 60)})
			}
		}
	}
	if f == nil {
		f = &Failure{Message: clip(message, maxMessage)}
	}
	if e, ok := errors.AsType[*causedError](err); ok {
		f.Cause = clip(readable(e.cause), maxMessage)
	}
	if n := len(f.Callers); n > 0 && f.Callers[n-1].Line == 0 {
		f.Callers = f.Callers[:n-1] // the caller is not part of the script, or was left out
	}
	return f
}

// hints tell what to write instead of Python that Starlark does not have. The pattern is
// matched with the message, a line feed, and the line of the source.
var hints = []struct {
	pattern *regexp.Regexp
	hint    string
}{
	{regexp.MustCompile(`\n.*\b[fF]r?["']`), `There are no f-strings. Write "{} and {}".format(x, y), or "%s and %s" % (x, y).`},
	{regexp.MustCompile(`\n(try|except|finally|raise)\b`), `There are no exceptions. try_call(name, {…}) returns a record with ok, value and error; fail("text") ends the script.`},
	{regexp.MustCompile(`\n(import|from)\b`), "There are no modules. json and math are there without an import."},
	{regexp.MustCompile(`\n(class)\b`), "There are no classes. Use dicts and functions."},
	{regexp.MustCompile(`\n(async|await)\b|\n.*\bawait\b`), "There is no async. Use call, and parallel([(name, {…}), …]) for calls at the same time."},
	{regexp.MustCompile(`\n(with|del|global|nonlocal|yield|assert)\b`), "Starlark has no such statement. Use plain functions, lists, dicts, if, for and while; d.pop(key) removes a key."},
	{regexp.MustCompile(`\n.*\bis\b`), "Starlark has no is. Compare with == and !=, also with None."},
	{regexp.MustCompile(`\n.*\*\*`), "Starlark has no operator **. Use math.pow(x, y), or multiply."},
	{regexp.MustCompile(`undefined: isinstance`), `Compare type(x) with "string", "int", "float", "bool", "list", "dict", "tuple" or "NoneType".`},
	{regexp.MustCompile(`undefined: (open|os|sys|time|datetime|random|requests|re|subprocess|asyncio)\b`), "A script has no files, network, clock, randomness or modules. It only calls tools."},
	{regexp.MustCompile(`undefined: (map|filter)\b`), "Use a comprehension: [f(x) for x in xs if g(x)]."},
	{regexp.MustCompile(`undefined: round\b`), "Use int(x + 0.5), math.floor(x) or math.ceil(x)."},
	{regexp.MustCompile(`undefined: (\S+__\S+)`), `Call a tool by its name in quotes: call("name", {…}).`},
	{regexp.MustCompile(`string value is not iterable`), "Use s.elems() for the characters of a string, or s.splitlines() for its lines."},
	{regexp.MustCompile(`unknown binary op: (string \+ |\w+ \+ string)`), "Convert with str(x) first."},
	{regexp.MustCompile(`key .* not in dict`), "d.get(key) returns None for a key that is absent. print(d.keys()) shows the keys."},
	{regexp.MustCompile(`(unhandled index operation string\[string\]|string index: got string)`), "The tool returned text that is not a JSON object or array. Print it to see its form."},
	{regexp.MustCompile(`local variable \w+ referenced before assignment`), "A function cannot assign to a variable outside of it. Pass the value, or change a list or dict."},
	{regexp.MustCompile(`argument may not follow \*`), "Write name = value before *list and **dict."},
	{regexp.MustCompile(`cannot concatenate implicitly|got string literal, want newline`), "Write + between two strings."},
}

func hint(message, source string) string {
	text := message + "\n" + source
	for _, h := range hints {
		if h.pattern.MatchString(text) {
			return h.hint
		}
	}
	return ""
}
