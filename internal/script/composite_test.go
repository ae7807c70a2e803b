package script

import (
	"errors"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

const triage = `name = "triage"
description = "Reads an issue and its comments."
input_schema = {"type": "object", "properties": {"number": {"type": "integer"}, "limit": {"type": "integer"}}, "required": ["number"]}
annotations = {"readOnlyHint": True}
LABELS = ["bug"]

def comments(number, limit):
    return call("issues__comments", {"number": number})[:limit]

def run(number, limit = 2):
    issue = call("issues__get", {"number": number})
    if issue["closed"]:
        fail("the issue is closed")
    return {"title": issue["title"], "labels": LABELS, "comments": comments(number, limit)}

tests = [
    {"arguments": {"number": 1},
     "calls": {"issues__get": [{"title": "t", "closed": False}], "issues__comments": [["a", "b", "c"]]},
     "result": {"labels": ["bug"], "title": "t", "comments": ["a", "b"]}},
    {"name": "closed", "arguments": {"number": 2}, "calls": {"issues__get": [{"closed": True}]}, "error": "is closed"},
    {"name": "absent", "arguments": {"number": 3}, "calls": {"issues__get": [{"$error": "not found"}]}, "error": "issues__get: not found"},
]
`

func TestComposite(t *testing.T) {
	c, err := LoadComposite("triage.star", triage, realClock{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"triage","description":"Reads an issue and its comments.","inputSchema":{"type":"object","properties":{"number":{"type":"integer"},"limit":{"type":"integer"}},"required":["number"]},"annotations":{"readOnlyHint":true}}`
	if c.Name != "triage" || string(c.Definition) != want {
		t.Errorf("got %s", c.Definition)
	}
	if got := strings.Join(c.Tools, " "); got != "issues__comments issues__get" {
		t.Errorf("its tools are %s", got)
	}
	if n, failed := c.Test(t.Context(), testLimits, realClock{}, noSchema); n != 3 || len(failed) > 0 {
		t.Errorf("%d tests, failed: %v", n, failed)
	}
	// Each run begins with fresh globals.
	host := &testHost{answers: map[string][]wire.Raw{"issues__get": {resultOf(wire.ValueOf(wire.Raw(`{"title":"x","closed":false}`)))}, "issues__comments": {resultOf(wire.ValueOf(wire.Raw(`["a"]`)))}}}
	res, err := c.Do(t.Context(), NewRun(Options{Host: host, Limits: testLimits, Clock: realClock{}}), wire.Raw(`{"number":1,"limit":0}`))
	if err != nil || string(res.Value) != `{"title":"x","labels":["bug"],"comments":[]}` {
		t.Errorf("got %s, %v", res.Value, err)
	}
	_, err = c.Do(t.Context(), NewRun(Options{Host: host, Limits: testLimits, Clock: realClock{}}), wire.Raw(`{"number":1}`))
	if f, ok := errors.AsType[*Failure](err); !ok || f.Line != 11 || !strings.Contains(f.Message, "issues__get") {
		t.Errorf("a failure: %v", err)
	}
}

func TestCompositeTestsFail(t *testing.T) {
	for from, want := range map[string]string{
		`"comments": ["a", "b"]}}`: `test "tests[0]": it returned {"title":"t","labels":["bug"],"comments":["a","b"]}, want`,
		`"error": "is closed"`:     `test "closed": it failed with line 13, column 13: fail: the issue is closed, which does not contain "other"`,
		`{"closed": True}]`:        `test "closed": it returned`,
		`["a", "b", "c"]]`:         "1 answers for issues__comments were not used",
	} {
		to := map[string]string{
			`"comments": ["a", "b"]}}`: `"comments": ["a"]}}`,
			`"error": "is closed"`:     `"error": "other"`,
			`{"closed": True}]`:        `{"closed": False, "title": ""}], "issues__comments": [[]]`,
			`["a", "b", "c"]]`:         `["a", "b", "c"], []]`,
		}[from]
		c, err := LoadComposite("triage.star", strings.Replace(triage, from, to, 1), realClock{})
		if err != nil {
			t.Fatal(err)
		}
		if _, failed := c.Test(t.Context(), testLimits, realClock{}, noSchema); len(failed) != 1 || !strings.Contains(failed[0].Error(), want) {
			t.Errorf("%s: got %v, want %s", to, failed, want)
		}
	}
}

func noSchema(string, wire.Raw) error { return nil }

// The arguments of a test and the value that is returned are checked against the schemas.
func TestCompositeTestsKeepToSchemas(t *testing.T) {
	c, err := LoadComposite("triage.star", triage, realClock{})
	if err != nil {
		t.Fatal(err)
	}
	var checked []string
	_, failed := c.Test(t.Context(), testLimits, realClock{}, func(member string, value wire.Raw) error {
		checked = append(checked, member+" "+string(value))
		if member == "outputSchema" || string(value) == `{"number":2}` {
			return errors.New("refused " + member)
		}
		return nil
	})
	if got, want := strings.Join(checked, "; "), `inputSchema {"number":1}; outputSchema {"title":"t","labels":["bug"],"comments":["a","b"]}; inputSchema {"number":2}; inputSchema {"number":3}`; got != want {
		t.Errorf("checked %s, want %s", got, want)
	}
	if got, want := errors.Join(failed...).Error(), "test \"tests[0]\": refused outputSchema\ntest \"closed\": refused inputSchema"; got != want {
		t.Errorf("failed: %s, want %s", got, want)
	}
}

func TestCompositeWarnings(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"", "", ""},
		{"tests = [", "test = [", "line 16, column 1: test has no effect: did you mean tests?"},
		{"annotations = ", "annotation = ", "line 4, column 1: annotation has no effect: did you mean annotations?"},
		{`"readOnlyHint": True`, `"readOnly": True`, `line 4, column 1: annotations has "readOnly", which no client knows; there are title, readOnlyHint, destructiveHint, idempotentHint, openWorldHint`},
		{`"readOnlyHint": True`, `"readOnlyHint": "yes"`, "line 4, column 1: annotations: readOnlyHint must be True or False"},
		{"def run(number, limit = 2)", "def run(number, limit)", "line 10, column 1: run fails if limit is absent, which input_schema allows: give the parameter a default, or add it to required"},
		{"def run(number, limit = 2)", "limit = 2\ndef run(number)", `line 11, column 1: run fails if "limit" is given, which input_schema has: add the parameter, or write run(…, **others)`},
		{"def run(number, limit = 2)", "limit = 2\ndef run(number, **others)", ""},
		{"def run(number, limit = 2)", "def run(number, labels, limit = 2)", "line 10, column 1: run has the parameter labels, which input_schema does not require"},
	} {
		c, err := LoadComposite("triage.star", strings.Replace(triage, tt.from, tt.to, 1), realClock{})
		if err != nil {
			t.Errorf("%s: %v", tt.to, err)
			continue
		}
		var got []string
		for _, w := range c.Warnings {
			got = append(got, w.Error())
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: got %q, want %q", tt.to, got, tt.want)
		}
	}
}

func TestCompositesThatAreWrong(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{`name = "triage"`, "", "does not define name"},
		{`name = "triage"`, "name = 5", "name is a int"},
		{`name = "triage"`, "name = {}", "name must be a string"},
		{`description = "`, `x = "`, "does not define description"},
		{`input_schema = {"type": "object"`, `input_schema = {"type": "array"`, `input_schema needs "type": "object"`},
		{`input_schema = {"type": "object"`, `input_schema = {"type": len`, "input_schema: a value of type builtin_function_or_method has no JSON form"},
		{"def run(", "def other(", "does not define a function run"},
		{`LABELS = ["bug"]`, `LABELS = call("x")`, "line 5, column 14: x: a file calls tools inside of functions only"},
		{`LABELS = ["bug"]`, "LABELS = []\nwhile True: pass", "the script took more than"},
		{`LABELS = ["bug"]`, "LABELS = [", "line 7, column 1: got"},
		{`LABELS = ["bug"]`, "load('x', 'y')", "cannot load files"},
		{`"result": `, `"results": `, `tests[0] has "results"`},
		{`tests = [`, `tests = [{},`, "tests[0] needs arguments"},
	} {
		_, err := LoadComposite("triage.star", strings.Replace(triage, tt.from, tt.to, 1), realClock{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.to, err, tt.want)
		}
	}
}
