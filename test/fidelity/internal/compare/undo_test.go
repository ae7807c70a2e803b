package compare

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUndo(t *testing.T) {
	for _, test := range []struct {
		name, sent, got string
		changes         []Change
		undone          string // "" if it equals sent
	}{
		{name: "equal", sent: "{ \"a\":1 }", got: "{ \"a\":1 }"},
		{name: "replaced", sent: `{"a":[1, {"uri":"x"}]}`, got: `{"a":[1, {"uri":"p+x"}]}`, changes: []Change{{"a/1/uri", `"x"`, `"p+x"`}}},
		{name: "added at the end", sent: `{ "a":1 }`, got: `{ "a":1 ,"b":2,"c":3}`, changes: []Change{{"b", "", "2"}, {"c", "", "3"}}},
		{name: "added to nothing", sent: `{}`, got: `{"b":2}`, changes: []Change{{"b", "", "2"}}},
		{name: "added first", sent: `{"a":1}`, got: `{"b":2, "a":1}`, changes: []Change{{"b", "", "2"}}},
		{name: "taken from the middle", sent: `{"a":1 , "b":2 , "c":3}`, got: `{"a":1 , "c":3}`, changes: []Change{{"b", "2", ""}}},
		{name: "taken from the front", sent: `{ "a":1 , "b":2}`, got: `{ "b":2}`, changes: []Change{{"a", "1", ""}}},
		{name: "all taken", sent: `{ "a":1 , "b":2 }`, got: `{  }`, changes: []Change{{"a", "1", ""}, {"b", "2", ""}}},
		{name: "another spelling of a number", sent: `[1e2]`, got: `[100]`, changes: []Change{{"0", "1e2", "100"}}},
		{name: "another spelling of a key", sent: `{"\u0041":1}`, got: `{"A":1}`, changes: []Change{{"A", "", "1"}, {`\u0041`, "1", ""}}},
		{name: "a repeated member", sent: `{"a":1,"a":2}`, got: `{"a":2}`, changes: []Change{{"a", "1", "2"}, {"a", "2", ""}}},
		{name: "an array of another length", sent: `{"a":[1,2]}`, got: `{"a":[1]}`, changes: []Change{{"a", "[1,2]", "[1]"}}},
		{name: "a slash", sent: `{"a/b":1}`, got: `{"a/b":2}`, changes: []Change{{"a//b", "1", "2"}}},
		{name: "white space is no change of a value", sent: `{"a": 1}`, got: `{"a":1}`, undone: `{"a":1}`},
		{name: "another order", sent: `{"a":1,"b":2}`, got: `{"b":2,"a":1}`, changes: []Change{{"a", "1", ""}, {"a", "", "1"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			undone, changes := Undo(test.sent, test.got)
			if !slices.Equal(changes, test.changes) {
				t.Errorf("changes %q, want %q", changes, test.changes)
			}
			want := test.undone
			if want == "" {
				want = test.sent
			}
			if undone != want {
				t.Errorf("undone %s, want %s", undone, want)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	rest, taken := Without(`{"a":1, "b":{"x":2} ,"c":3}`, "b", "a", "z")
	if rest != `{"c":3}` || len(taken) != 2 || taken["a"] != "1" || taken["b"] != `{"x":2}` {
		t.Errorf("rest %s, taken %q", rest, taken)
	}
}

func TestAt(t *testing.T) {
	const text = `{"a":[{"b": "c"}]}`
	if got := At(text, "a", "0", "b"); got != `"c"` {
		t.Errorf("%s", got)
	}
	if got := At(text, "a", "1"); got != "" {
		t.Errorf("%s", got)
	}
}
