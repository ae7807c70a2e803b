package script

import (
	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// plain returns the text of the value of a script that the interpreter runs by itself.
func plain(source string) (string, error) {
	file, err := dialect.Parse("script", source, 0)
	if err != nil {
		return "", err
	}
	stmts := file.Stmts
	if n := len(stmts); n > 0 {
		if last, ok := stmts[n-1].(*syntax.ExprStmt); ok {
			stmts[n-1] = &syntax.ReturnStmt{Return: syntax.Start(last), Result: last.X}
		}
	} else {
		return "None", nil
	}
	at := syntax.Start(stmts[0])
	file.Stmts = []syntax.Stmt{&syntax.DefStmt{Def: at, Name: &syntax.Ident{NamePos: at, Name: scriptFunction}, Body: stmts}}
	names := starlark.StringDict{"math": math.Module}
	program, err := starlark.FileProgram(file, names.Has)
	if err != nil {
		return "", err
	}
	thread := &starlark.Thread{Print: func(*starlark.Thread, string) {}}
	thread.SetMaxExecutionSteps(1_000_000)
	globals, err := program.Init(thread, names)
	if err != nil {
		return "", err
	}
	v, err := starlark.Call(thread, globals[scriptFunction], nil, nil)
	if err != nil {
		return "", err
	}
	return v.String(), nil
}
