package script

import (
	"fmt"
	"math/big"
	"strings"

	"go.starlark.net/syntax"
)

// rewriter replaces operations of the syntax tree by calls of functions that charge their
// cost: see operators.go. Names of these functions begin with a dollar sign, which no name
// of a script can have.
type rewriter struct {
	source  string
	depth   int
	failure *Failure
}

// enter bounds the nesting of the tree, which later passes recurse over.
func (w *rewriter) enter(at syntax.Node) bool {
	if w.depth++; w.depth > maxTree {
		w.fail(syntax.Start(at), "the script is nested too deeply here. Split it with variables")
	}
	return w.failure == nil
}

func (w *rewriter) leave() { w.depth-- }

func (w *rewriter) fail(pos syntax.Position, message string) {
	if w.failure == nil {
		w.failure = failureAt(w.source, pos, message)
	}
}

// invoke makes the call of one of our functions.
func invoke(pos syntax.Position, function string, args ...syntax.Expr) *syntax.CallExpr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: pos, Name: function}, Lparen: pos, Args: args, Rparen: pos}
}

func textLiteral(pos syntax.Position, s string) syntax.Expr {
	return &syntax.Literal{Token: syntax.STRING, TokenPos: pos, Raw: `""`, Value: s}
}

// sized charges a constant for a value that an expression makes.
func sized(pos syntax.Position, size int, e syntax.Expr) syntax.Expr {
	return invoke(pos, opSized, &syntax.Literal{Token: syntax.INT, TokenPos: pos, Raw: "0", Value: int64(size)}, e)
}

func (w *rewriter) block(stmts []syntax.Stmt) []syntax.Stmt {
	if len(stmts) == 0 {
		return nil // an absent branch stays absent
	}
	out := make([]syntax.Stmt, 0, len(stmts))
	for _, s := range stmts {
		if !w.enter(s) {
			return nil
		}
		out = append(out, w.stmt(s))
		if def, ok := s.(*syntax.DefStmt); ok && def.Name.Name != scriptFunction {
			none := &syntax.Ident{NamePos: def.Def, Name: "None"}
			out = append(out, &syntax.ExprStmt{X: sized(def.Def, funcSize+slotSize*len(def.Params), none)})
		}
		w.leave()
	}
	return out
}

func (w *rewriter) stmt(s syntax.Stmt) syntax.Stmt {
	switch s := s.(type) {
	case *syntax.AssignStmt:
		return w.assign(s)
	case *syntax.DefStmt:
		w.params(s.Params)
		s.Body = append([]syntax.Stmt{&syntax.ExprStmt{X: w.entered(s.Def, s.Params, s.Body)}}, w.block(s.Body)...)
	case *syntax.ExprStmt:
		s.X = w.expr(s.X)
	case *syntax.ForStmt:
		s.Vars, s.X, s.Body = w.target(s.Vars), w.expr(s.X), w.block(s.Body)
	case *syntax.WhileStmt:
		s.Cond, s.Body = w.expr(s.Cond), w.block(s.Body)
	case *syntax.IfStmt:
		s.Cond, s.True = w.expr(s.Cond), w.block(s.True)
		s.False = w.block(s.False)
	case *syntax.LoadStmt:
		w.fail(s.Load, "a script cannot load files")
	case *syntax.ReturnStmt:
		if s.Result != nil {
			s.Result = w.expr(s.Result)
		}
	}
	return s
}

// assign rewrites x = y and x += y. The latter becomes an assignment of the result of a
// function, and for x[i] += y the call of a function.
func (w *rewriter) assign(s *syntax.AssignStmt) syntax.Stmt {
	if s.Op == syntax.EQ {
		if x, ok := unparen(s.LHS).(*syntax.IndexExpr); ok { // in the order in which the interpreter evaluates them
			return &syntax.ExprStmt{X: invoke(x.Lbrack, opSetAt, w.expr(s.RHS), w.expr(x.X), w.expr(x.Y))}
		}
		s.LHS, s.RHS = w.target(s.LHS), w.expr(s.RHS)
		return s
	}
	op := strings.TrimSuffix(s.Op.String(), "=")
	switch x := unparen(s.LHS).(type) {
	case *syntax.Ident:
		old := &syntax.Ident{NamePos: x.NamePos, Name: x.Name}
		return &syntax.AssignStmt{OpPos: s.OpPos, Op: syntax.EQ, LHS: x, RHS: invoke(s.OpPos, opInPlace, textLiteral(s.OpPos, op), old, w.expr(s.RHS))}
	case *syntax.IndexExpr:
		return &syntax.ExprStmt{X: invoke(s.OpPos, opInPlaceAt, textLiteral(s.OpPos, op), w.expr(x.X), w.expr(x.Y), w.expr(s.RHS))}
	}
	w.fail(s.OpPos, "only a variable or an element, as in x += 1 or x[i] += 1, can be changed with "+s.Op.String())
	return s
}

func unparen(e syntax.Expr) syntax.Expr {
	for {
		p, ok := e.(*syntax.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

// target rewrites what is assigned to.
func (w *rewriter) target(e syntax.Expr) syntax.Expr {
	if !w.enter(e) {
		return e
	}
	defer w.leave()
	switch e := e.(type) {
	case *syntax.ParenExpr:
		e.X = w.target(e.X)
	case *syntax.TupleExpr:
		for i := range e.List {
			e.List[i] = w.target(e.List[i])
		}
	case *syntax.ListExpr:
		for i := range e.List {
			e.List[i] = w.target(e.List[i])
		}
	case *syntax.IndexExpr:
		e.X, e.Y = w.expr(e.X), invoke(e.Lbrack, opEntry, w.expr(e.Y))
	case *syntax.DotExpr:
		w.fail(e.Dot, `cannot assign to .`+e.Name.Name+`. Use a dict: x["`+e.Name.Name+`"] = …`)
	}
	return e
}

// params rewrites the defaults of parameters.
func (w *rewriter) params(params []syntax.Expr) {
	for _, p := range params {
		if d, ok := p.(*syntax.BinaryExpr); ok {
			d.Y = w.expr(d.Y)
		}
	}
}

// entered makes the call with which a function begins.
func (w *rewriter) entered(at syntax.Position, params []syntax.Expr, body []syntax.Stmt) syntax.Expr {
	size := 16 * len(params)
	for _, p := range params {
		if star, ok := p.(*syntax.UnaryExpr); ok {
			size += listSize
			if star.Op == syntax.STARSTAR {
				size += dictSize
			}
		}
	}
	names, closures := 0, false
	for _, s := range body {
		if w.failure != nil {
			break
		}
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n.(type) {
			case *syntax.Ident:
				names++
			case *syntax.DefStmt, *syntax.LambdaExpr:
				closures = true
			}
			return true
		})
	}
	if closures { // each variable may be kept by a function
		size += 32 * names
	}
	return invoke(at, opEnter, &syntax.Literal{Token: syntax.INT, TokenPos: at, Raw: "0", Value: int64(size)})
}

func (w *rewriter) exprs(list []syntax.Expr) {
	for i := range list {
		list[i] = w.expr(list[i])
	}
}

func (w *rewriter) expr(e syntax.Expr) syntax.Expr {
	if e == nil || !w.enter(e) {
		return e
	}
	defer w.leave()
	switch e := e.(type) {
	case *syntax.Literal:
		if n, ok := e.Value.(*big.Int); ok && n.BitLen() > maxBits {
			w.fail(e.TokenPos, fmt.Sprintf("the integer has more than %d bits", maxBits))
		}
	case *syntax.ParenExpr:
		e.X = w.expr(e.X)
	case *syntax.BinaryExpr:
		x, y := w.expr(e.X), w.expr(e.Y)
		if e.Op == syntax.AND || e.Op == syntax.OR {
			e.X, e.Y = x, y
			return e
		}
		return invoke(e.OpPos, "$"+e.Op.String(), x, y)
	case *syntax.UnaryExpr:
		e.X = w.expr(e.X)
	case *syntax.CallExpr:
		e.Fn = w.expr(e.Fn)
		w.args(e.Args)
	case *syntax.DotExpr:
		return invoke(e.Name.NamePos, opAttr, w.expr(e.X), textLiteral(e.Name.NamePos, e.Name.Name))
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = w.expr(e.Cond), w.expr(e.True), w.expr(e.False)
	case *syntax.IndexExpr:
		e.X = w.expr(e.X)
		if _, ok := e.Y.(*syntax.Literal); !ok {
			e.Y = invoke(e.Lbrack, opKey, w.expr(e.Y))
		}
	case *syntax.SliceExpr:
		e.X, e.Lo, e.Hi, e.Step = w.expr(e.X), w.expr(e.Lo), w.expr(e.Hi), w.expr(e.Step)
		return invoke(e.Lbrack, opMade, e)
	default:
		return w.display(e)
	}
	return e
}

func (w *rewriter) args(args []syntax.Expr) {
	for _, a := range args {
		switch a := a.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ {
				a.Y = w.expr(a.Y)
				continue
			}
		case *syntax.UnaryExpr:
			if a.Op == syntax.STAR || a.Op == syntax.STARSTAR {
				a.X = invoke(a.OpPos, opSpread, w.expr(a.X))
				continue
			}
		}
	}
	for i, a := range args {
		if !isSpecialArg(a) {
			args[i] = w.expr(a)
		}
	}
}

// isSpecialArg reports whether an argument is name=value, *list or **dict.
func isSpecialArg(a syntax.Expr) bool {
	switch a := a.(type) {
	case *syntax.BinaryExpr:
		return a.Op == syntax.EQ
	case *syntax.UnaryExpr:
		return a.Op == syntax.STAR || a.Op == syntax.STARSTAR
	}
	return false
}

// display rewrites expressions that make a list, tuple, dict or function.
func (w *rewriter) display(e syntax.Expr) syntax.Expr {
	at := syntax.Start(e)
	switch e := e.(type) {
	case *syntax.ListExpr:
		w.exprs(e.List)
		return sized(at, listSize+16*len(e.List), e)
	case *syntax.TupleExpr:
		w.exprs(e.List)
		return sized(at, listSize+16*len(e.List), e)
	case *syntax.DictExpr:
		for _, entry := range e.List {
			w.entry(entry.(*syntax.DictEntry))
		}
		return sized(at, dictSize, e)
	case *syntax.LambdaExpr:
		w.params(e.Params)
		enter := w.entered(e.Lambda, e.Params, []syntax.Stmt{&syntax.ExprStmt{X: e.Body}})
		none := &syntax.Ident{NamePos: e.Lambda, Name: "None"}
		e.Body = &syntax.CondExpr{If: e.Lambda, Cond: enter, True: w.expr(e.Body), ElsePos: e.Lambda, False: none}
		return sized(at, funcSize+slotSize*len(e.Params), e)
	case *syntax.Comprehension:
		for _, c := range e.Clauses {
			switch c := c.(type) {
			case *syntax.ForClause:
				c.Vars, c.X = w.target(c.Vars), w.expr(c.X)
			case *syntax.IfClause:
				c.Cond = w.expr(c.Cond)
			}
		}
		if entry, ok := e.Body.(*syntax.DictEntry); ok {
			w.entry(entry)
			return sized(at, dictSize, e)
		}
		e.Body = invoke(syntax.Start(e.Body), opElement, w.expr(e.Body))
		return sized(at, listSize, e)
	}
	return e
}

func (w *rewriter) entry(e *syntax.DictEntry) {
	e.Key, e.Value = invoke(syntax.Start(e.Key), opEntry, w.expr(e.Key)), w.expr(e.Value)
}
