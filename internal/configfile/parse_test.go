package configfile

import (
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// The same content has the same keys and values in every language, and positions of its own.
func TestParse(t *testing.T) {
	for name, tc := range map[string]struct{ text, at string }{
		"a.yaml":  {"# x\na:\n  b: [1, two]\n", "3:6"},
		"a.jsonc": {"{ // x\n\"a\": {\"b\": [1, \"two\",],},}", "2:12"},
		"b.yaml":  {"{\n\t\"a\": {\"b\": [1, \"two\"]} // x\n}", "2:13"},
		"a.toml":  {"# x\n[a]\nb = [1, 'two']\n", "3:1"},
	} {
		root, err := Parse(name, []byte(tc.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		list := Child(Child(root, "a"), "b")
		if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) != 2 || list.Content[1].Value != "two" {
			t.Errorf("%s: %+v", name, list)
			continue
		}
		if KindOf(list.Content[0]) != "a number" || KindOf(list.Content[1]) != "a string" || PosOf(list).String() != tc.at {
			t.Errorf("%s: %s and %s at %v, want a list at %s", name, KindOf(list.Content[0]), KindOf(list.Content[1]), PosOf(list), tc.at)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a.yaml", "a: \x00", "a.yaml:1:1: is a binary file; a configuration is text in UTF-8, YAML or JSON"},
		{"a.json", "{\n  x\n}", "a.json:2:3: not valid JSON: "},
		{"a.toml", "a = \n", "a.toml:1:5: not valid TOML: "},
		{"a.yaml", "a:\n\tb: 1\n", "a.yaml:2:1: not valid YAML: a TAB indents this line; use spaces"},
		{"a.yaml", "listen: [\nupstreams: {a: {command: cat}}\n", "a.yaml:1:1: not valid YAML: a [ that is opened here is not closed by ], or a comma is missing in it"},
		{"a.yaml", "a:\n  b: {c: 1\n", "a.yaml:2:3: not valid YAML: a { that is opened here is not closed by }, or a comma is missing in it"},
		{"a.yaml", strings.Repeat("#", MaxSize+1), "a.yaml:1:1: is larger than 1MiB"},
	} {
		if _, err := Parse(tc.name, []byte(tc.text)); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%.20q: %v, want %s", tc.text, err, tc.want)
		}
	}
}

// Merged keys come last, an earlier key wins, and the number of visited values is bounded for all files of a report.
func TestPairs(t *testing.T) {
	root, parseErr := Parse("a.yaml", []byte("base: &b {x: 1, y: 2}\nuse: {y: 3, <<: *b, z: 4}\ntwice: {a: 1, a: 2}\n"))
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	r := Reader{File: "a.yaml", Report: NewReport()}
	var got []string
	for _, p := range r.Pairs(Child(root, "use"), Path{}) {
		got = append(got, p.Name+p.Value.Value)
	}
	if strings.Join(got, " ") != "y3 z4 x1" {
		t.Errorf("keys %v", got)
	}
	r.Pairs(Child(root, "twice"), Path{}.Key("twice", "twice"))
	if err := r.Errors.Sorted().Error(); err != "a.yaml:3:15: twice.a: is here twice; the first is at 3:9" {
		t.Error(err)
	}
	other := Reader{File: "b.yaml", Report: r.Report}
	for other.Spend(root) {
	}
	if last := r.Errors[len(r.Errors)-1]; last.File != "b.yaml" || !strings.Contains(last.Msg, "expand to more than 200000 values") {
		t.Errorf("the last error is %v", last)
	}
	if other.Errorf(root, Path{}, "ignored"); len(r.Errors) != 2 {
		t.Errorf("errors after the bound: %v", r.Errors)
	}
}
