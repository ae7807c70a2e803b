package script

import (
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// scriptFunction is the name of the function that a script is the body of.
const scriptFunction = "script"

// dialect is what a script may use beside the core of Starlark.
var dialect = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// Program is a compiled script.
type Program struct {
	name, source string
	compiled     *starlark.Program
	tools        []string // that calls name as plain strings, in their order
}

// Compile compiles a script for [Run.Do]. The name stands for the file in messages. A script
// is the body of a function: its result is what it returns, or else the value of its last
// statement if that is an expression. The error is a *Failure.
func Compile(name, source string) (*Program, error) {
	return compile(name, source, func(stmts []syntax.Stmt, at syntax.Position) []syntax.Stmt {
		if n := len(stmts); n > 0 {
			if last, ok := stmts[n-1].(*syntax.ExprStmt); ok {
				stmts[n-1] = &syntax.ReturnStmt{Return: syntax.Start(last), Result: last.X}
			}
		} else {
			stmts = []syntax.Stmt{&syntax.BranchStmt{Token: syntax.PASS, TokenPos: at}}
		}
		return []syntax.Stmt{&syntax.DefStmt{Def: at, Name: &syntax.Ident{NamePos: at, Name: scriptFunction}, Lparen: at, Rparen: at, Body: stmts}}
	})
}

// compile compiles a file. arrange, unless it is nil, rearranges its statements.
func compile(name, source string, arrange func([]syntax.Stmt, syntax.Position) []syntax.Stmt) (p *Program, err error) {
	defer func() {
		if recover() != nil { // a fault of the parser or the compiler
			p, err = nil, &Failure{Message: "the compiler failed"}
		}
	}()
	if len(source) > MaxSource {
		return nil, &Failure{Message: fmt.Sprintf("the script has %d bytes, and may have %d", len(source), MaxSource)}
	}
	file, err := dialect.Parse(name, source, 0)
	if err != nil {
		return nil, compileFailure(source, err)
	}
	w := rewriter{source: source}
	stmts := file.Stmts
	if arrange != nil {
		stmts = arrange(stmts, syntax.MakePosition(&name, 1, 1))
	}
	tools := toolsIn(stmts)
	stmts = w.block(stmts)
	if w.failure != nil {
		return nil, w.failure
	}
	file.Stmts = stmts
	compiled, err := starlark.FileProgram(file, isPredeclared)
	if err != nil {
		return nil, compileFailure(source, err)
	}
	return &Program{name: name, source: source, compiled: compiled, tools: tools}, nil
}

// toolsIn returns the names of tools in call("tool", …) and in parallel([("tool", …), …]).
func toolsIn(stmts []syntax.Stmt) (names []string) {
	add := func(e syntax.Expr) {
		if l, ok := unparen(e).(*syntax.Literal); ok && l.Token == syntax.STRING && !slices.Contains(names, l.Value.(string)) {
			names = append(names, l.Value.(string))
		}
	}
	inParallel := func(n syntax.Node) bool {
		if t, ok := n.(*syntax.TupleExpr); ok && len(t.List) > 0 {
			add(t.List[0])
		}
		return true
	}
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			c, ok := n.(*syntax.CallExpr)
			if !ok || len(c.Args) == 0 {
				return true
			}
			if f, ok := c.Fn.(*syntax.Ident); ok {
				switch f.Name {
				case "call", "try_call":
					add(c.Args[0])
				case "parallel", "try_parallel":
					syntax.Walk(c.Args[0], inParallel)
				}
			}
			return true
		})
	}
	return names
}
