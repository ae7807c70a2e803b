package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// operationsGuide is the document for operators. In tables with the
// column "log line" the first cell of each row has messages of the log, as code.
const operationsGuide = "../docs/operations.md"

var codeSpan = regexp.MustCompile("`([^`]+)`")

// TestOperationsGuideNamesTheLog holds the messages in the guide against those in
// the source: each is there, and every warning and error that the gateway may log
// is in the guide.
func TestOperationsGuideNamesTheLog(t *testing.T) {
	guide, err := os.ReadFile(operationsGuide)
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string]bool)
	inTable := false
	for line := range strings.Lines(string(guide)) {
		switch {
		case strings.HasPrefix(line, "| log line |"):
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable:
			cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), " |")
			for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
				told[strings.TrimSpace(strings.TrimSuffix(m[1], "…"))] = true
			}
		}
	}
	logged := make(map[string]bool)
	for _, dir := range []string{".", "../cmd"} {
		maps.Copy(logged, messagesIn(t, dir))
	}
	if len(told) < 20 || len(logged) < 40 {
		t.Fatalf("%d messages in the guide and %d in the source were found", len(told), len(logged))
	}
	for _, m := range slices.Sorted(maps.Keys(told)) {
		if _, ok := logged[m]; !ok {
			t.Errorf("%s has the message %q, which nothing logs", operationsGuide, m)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(logged)) {
		if logged[m] && !told[m] {
			t.Errorf("the message %q is a warning or an error, and %s does not say what to do", m, operationsGuide)
		}
	}
}

// loggers are the methods that take a message first, and whether what they log is
// sure to be a warning or worse; loggersOfLevel take a level before it.
var (
	loggers = map[string]bool{
		"Debug": false, "Info": false, "Warn": true, "Error": true,
		"countRefusedID": true,
	}
	handsOn        = map[string]bool{"countRefusedID": true, "countRefused": true, "countRefusedIn": true}
	loggersOfLevel = map[string]bool{"Log": true, "LogCategory": true, "Check": true, "countRefused": true, "countRefusedIn": true}
)

// messagesIn returns the messages of the log in the Go files below a folder.
func messagesIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out := make(map[string]bool)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			at := 0
			severe, is := loggers[f.Sel.Name]
			if loggersOfLevel[f.Sel.Name] {
				at, is = 1, true
			}
			if !is || len(call.Args) <= at || !handsOn[f.Sel.Name] && !isLogger(f.X) {
				return true
			}
			if m, ok := messageOf(call.Args[at]); ok {
				out[m] = out[m] || severe
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// isLogger reports whether an expression is a logger, as ours are called.
func isLogger(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "log"
	case *ast.SelectorExpr:
		return e.Sel.Name == "log" || e.Sel.Name == "Log" || e.Sel.Name == "RateLog" || e.Sel.Name == "Logger" || e.Sel.Name == "ratelog"
	}
	return false
}

// messageOf returns what a message is, or begins with.
func messageOf(e ast.Expr) (string, bool) {
	if b, ok := e.(*ast.BinaryExpr); ok {
		e = b.X
	}
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return strings.TrimSpace(text), err == nil
}
