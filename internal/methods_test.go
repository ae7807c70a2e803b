package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// methodSwitches are the files that may choose between methods by their names,
// with the reason. All others ask the table of methods in wire, so that a method is
// added by one row. A comparison with one method, in the code that implements it, and
// a map from methods to the functions that implement them are no such choice.
var methodSwitches = map[string]string{
	"gatewaytest/world.go":          "it is a server, which implements these methods",
	"upstream/upstreamtest/fake.go": "it is a server, which implements these methods",
}

// namesMethod matches the constants of wire that name methods and notifications.
var namesMethod = regexp.MustCompile(`^(Method|Note)[A-Z]`)

func TestMethodsAreInOneTable(t *testing.T) {
	used := map[string]bool{}
	for _, root := range []string{".", "../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if n == nil || !choosesByMethod(n) {
					return true
				}
				name := filepath.ToSlash(path)
				if used[name] = true; methodSwitches[name] == "" {
					t.Errorf("%s chooses between methods by name: put what differs into a column of the table in wire/methods.go", files.Position(n.Pos()))
				}
				return false
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range methodSwitches {
		if !used[name] {
			t.Errorf("%s no longer chooses between methods: take it out of methodSwitches", name)
		}
	}
}

// choosesByMethod reports whether a node is a switch with several methods in its
// cases, or a chain of || that compares with several.
func choosesByMethod(n ast.Node) bool {
	methods := map[string]bool{}
	switch n := n.(type) {
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			for _, e := range c.(*ast.CaseClause).List {
				addMethods(e, methods)
			}
		}
	case *ast.BinaryExpr:
		if n.Op == token.LOR {
			addMethods(n, methods)
		}
	}
	return len(methods) > 1
}

// addMethods adds the constants in an expression that name methods.
func addMethods(e ast.Expr, to map[string]bool) {
	ast.Inspect(e, func(x ast.Node) bool {
		if sel, ok := x.(*ast.SelectorExpr); ok {
			pkg, ok := sel.X.(*ast.Ident)
			if name := sel.Sel.Name; ok && pkg.Name == "wire" && namesMethod.MatchString(name) && name != "MethodOf" && name != "MethodKind" {
				to[name] = true
			}
		}
		return true
	})
}
