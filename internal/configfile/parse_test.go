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

// An error of YAML names the line at which the parser stopped, and says what does not fit there.
func TestMisplacedLine(t *testing.T) {
	const upstreams = "# x\nupstreams:\n  a:\n    command: npx\n" // four lines
	for _, tc := range []struct{ name, text, want string }{
		{"the first key too far right", upstreams + "  b:\n     command: npx\n    args: [x]\n  c: {}\n",
			"7:5: not valid YAML: is indented unlike the keys beside it: it begins in column 5; above it, keys begin in column 6 (line 6), keys in column 3 (line 5)"},
		{"a key too far left", upstreams + "   args: [x]\n    cwd: /\n",
			"5:4: not valid YAML: is indented unlike the keys beside it: it begins in column 4; above it, keys begin in column 5 (line 4), keys in column 3 (line 3)"},
		{"a name too far left", upstreams + " b:\n    command: npx\n  c: {}\n", "5:2: not valid YAML: is indented unlike the keys beside it: it begins in column 2; "},
		{"CRLF", "a:\r\n     b: 1\r\n    c: 1\r\n", "3:5: not valid YAML: is indented unlike the keys beside it: "},
		{"the last key too far right, after quotes", upstreams + "    cwd: \"/\"\n     args: [x]",
			"6:6: not valid YAML: is indented unlike the keys beside it: it begins in column 6; above it, keys begin in column 5 (line 5)"},
		{"a key too far right, after text", upstreams + "     args: [x]\n",
			"5:6: not valid YAML: is indented unlike the keys beside it: it begins in column 6; above it, keys begin in column 5 (line 4); if this is text of the value there, put that in quotes"},
		{"the first key of the file", " listen: x\n# y\nupstreams: {}\n",
			"3:1: not valid YAML: is indented unlike the keys beside it: it begins in column 1; above it, keys begin in column 2 (line 1)"},
		{"after a block scalar and a comment", "a:\n    text: |\n      - x\n        y: z\n  # z\n   b: 1\n",
			"6:4: not valid YAML: is indented unlike the keys beside it: it begins in column 4; above it, keys begin in column 5 (line 2), keys in column 1 (line 1)"},
		{"after a mapping in braces", "a:\n  b: {c: 1,\n d: 2}\n   e: 1\n", "4:4: not valid YAML: is indented unlike the keys beside it: it begins in column 4; "},
		{"a quoted key", "a:\n    b: 1\n  \"x y\": 1\n", "3:3: not valid YAML: is indented unlike the keys beside it: "},
		{"the first entry too far right", "a:\n   - \"x\"\n  - \"y\"\n",
			"3:3: not valid YAML: is indented unlike the list entries beside it: it begins in column 3; above it, list entries begin in column 4 (line 2), keys in column 1 (line 1)"},
		{"the last entry too far right", "a:\n  - \"x\"\n\n   - \"y\"\n", "4:4: not valid YAML: is indented unlike the list entries beside it: it begins in column 4; "},
		{"an entry too far right, after text", "a:\n  - x\n   - y: z\n",
			"3:4: not valid YAML: is indented unlike the list entries beside it: it begins in column 4; above it, list entries begin in column 3 (line 2); if this"},
		{"a key of an entry", "a:\n  - b: \"x\"\n   c: y\n",
			"3:4: not valid YAML: is indented unlike the keys beside it: it begins in column 4; above it, keys begin in column 5 (line 2), list entries in column 3 (line 2)"},
		{"an entry among keys", "a:\n  b:\n    - x\n  - y\n",
			"4:3: not valid YAML: a list entry stands here where a key is expected: it begins in column 3; above it, list entries begin in column 5 (line 3), keys in column 1 (line 1)"},
		{"a key among entries", "a:\n  - b: x\n  c: y\n",
			"3:3: not valid YAML: a list entry is expected here, which begins with a - and a space: it begins in column 3; above it, keys begin in column 5 (line 2), keys in column 1 (line 1)"},

		// The indentation is not what is wrong.
		{"a bracket too much", "a: 1\nb: [x]]\n", "2:7: not valid YAML: this ] closes nothing"},
		{"a brace too much", "a: {b: 1}\n  }\n", "2:3: not valid YAML: this } closes nothing"},
		{"text after quotes", "a: 1\nb: 'it's fine'\nc: 2\n", "2:8: not valid YAML: the value before this has ended, and nothing can follow it on its line; "},
		{"quotes after quotes", "a:\n  b: \"x\" \"y\"\n", "2:12: not valid YAML: did not find expected key; the parser stopped here, in what begins on line 2"},
		{"a quote over lines", "a:\n    b: 1\n  \"x\n   y\"\n", "4:5: not valid YAML: did not find expected key; the parser stopped here, in what begins on line 1"},
		{"two values", "{a: 1}\nb: 2\n", "2:1: not valid YAML: the configuration has ended above, and something follows"},
		{"no colon", "a:\n  command npx\n  args: x\n", "3:3: not valid YAML: a key and a colon where none can be; "},
		{"two colons", "a: 1\nb: c: d\n", "2:1: not valid YAML: a key and a colon where none can be; "},
		{"a scope in brackets", "a:\n  b: [-y, @x/y]\n", "2:11: not valid YAML: no value begins with @; put it in quotes"},
		{"a scope in a list", "a:\n  - é\n  - @x/y\n", "3:5: not valid YAML: no value begins with @; "},
		{"a backtick after letters of two bytes", "a: {é: `x`}\n", "1:8: not valid YAML: no value begins with `; "},
		{"a comma too much", "a: 1\nb: [x,,y]\n", "2:1: not valid YAML: did not find expected node content"},

		// A bracket is open at the end of the file.
		{"[", "a: 1\nb:\n  c: [\n", "3:3: not valid YAML: a [ that is opened here is not closed by ]"},
		{"[ without a line break", "a: 1\nb: [", "2:1: not valid YAML: a [ that is opened here is not closed by ]"},
		{"a comma", "a: 1\nb: [x, # y", "2:1: not valid YAML: a [ that is opened here is not closed by ]"},
		{"{", "a: 1\nb: {\n\n", "2:1: not valid YAML: a { that is opened here is not closed by }"},
		{"{ within [", "a: 1\nb: [x,\n  {\n", "3:3: not valid YAML: a { that is opened here is not closed by }"},
		{"{ alone", "{", "1:1: not valid YAML: a { that is opened here is not closed by }"},
	} {
		if _, err := Parse("a.yaml", []byte(tc.text)); err == nil || !strings.HasPrefix(err.Error(), "a.yaml:"+tc.want) {
			t.Errorf("%s:\n%s\n%v, want %s", tc.name, tc.text, err, tc.want)
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
