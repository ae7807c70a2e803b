package configfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"gopkg.in/yaml.v3"
)

// TestEdits makes the change of each file of testdata/edit: a command in the comment, the file before, and the file after
// or the error.
func TestEdits(t *testing.T) {
	files, err := filepath.Glob("testdata/edit/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ar := txtar.Parse(data)
			parts := make(map[string]string)
			for _, f := range ar.Files {
				parts[f.Name] = decode(string(f.Data))
			}
			e, bad := NewEdit("gateway.yaml", []byte(parts["before"]))
			for line := range strings.Lines(string(ar.Comment)) {
				words := strings.Fields(line)
				if bad != nil || len(words) == 0 || words[0] == "#" {
					continue
				}
				switch words[0] {
				case "set":
					bad = e.Set("upstreams", words[1], entryOf(t, parts["entry"]))
				case "remove":
					bad = e.Remove("upstreams", words[1])
				case "scalar":
					bad = e.SetScalar(words[1], words[2], "upstreams")
				default:
					t.Fatalf("unknown command %s", words[0])
				}
			}
			if bad != nil {
				if want := strings.TrimSpace(parts["error"]); bad.Error() != want {
					t.Errorf("got  %v\nwant %s", bad, want)
				}
				return
			}
			if got := string(e.Bytes()); got != parts["after"] {
				t.Errorf("got\n%q\nwant\n%q\n%s", got, parts["after"], got)
			}
		})
	}
}

// decode replaces marks of characters that an archive cannot show.
func decode(text string) string {
	text = strings.NewReplacer("␍", "\r", "→", "\t").Replace(text)
	return strings.TrimSuffix(text, "␄\n")
}

func entryOf(t *testing.T, text string) *yaml.Node {
	t.Helper()
	if text == "" {
		text = "command: npx\nargs: [-y, server]\nenv: {A: '${A}'}\n"
	}
	root, err := Parse("entry.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestEditKeepsEverythingElse edits configurations that were made from files of hosts, those of the tests of package config,
// and the example: a new entry is a pure insertion, its removal restores every byte, and the removal of any other entry is
// a pure deletion.
func TestEditKeepsEverythingElse(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../hostimport/testdata/*.golden", "../config/testdata/good/*.yaml", "../../gateway.yaml.example"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, found...)
	}
	edited, removed := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(data), "\n--- ") // what a golden has beside the file
		for name, text := range map[string]string{file: text, file + " with CRLF": strings.ReplaceAll(text, "\n", "\r\n")} {
			e, bad := NewEdit("gateway.yaml", []byte(text))
			if bad != nil || e.section("upstreams").value == nil || strings.Contains(text, "upstreams: {}") {
				continue // JSON, or braces that go
			}
			if bad := e.Set("upstreams", "new", entryOf(t, "")); bad != nil {
				t.Errorf("%s: %v", name, bad)
				continue
			}
			edited++
			if got := string(e.Bytes()); !isPart(text, got) {
				t.Errorf("%s: more has changed than an insertion:\n%s", name, got)
			}
			if bad := e.Remove("upstreams", "new"); bad != nil || string(e.Bytes()) != text {
				t.Errorf("%s: not restored: %v\n%s", name, bad, e.Bytes())
			}
			for _, key := range keysOf(e.section("upstreams").value) {
				e, _ := NewEdit("gateway.yaml", []byte(text))
				if bad := e.Remove("upstreams", key); bad != nil {
					if !strings.Contains(bad.Msg, "anchor") {
						t.Errorf("%s: %v", name, bad)
					}
					continue
				}
				removed++
				if got := string(e.Bytes()); !isPart(got, text) || e.Has("upstreams", key) {
					t.Errorf("%s: more has changed than a deletion of %s:\n%s", name, key, got)
				}
			}
		}
	}
	if edited < 60 || removed < 150 {
		t.Errorf("%d files were edited, and %d entries removed", edited, removed)
	}
}

func keysOf(section *yaml.Node) []string {
	var keys []string
	for i := 0; i+1 < len(section.Content); i += 2 {
		if section.Content[i].Tag != "!!merge" {
			keys = append(keys, section.Content[i].Value)
		}
	}
	return keys
}

// isPart reports whether a text is another one without one piece.
func isPart(short, long string) bool {
	for i := 0; i < len(short); i++ {
		if short[i] != long[i] {
			return strings.HasSuffix(long, short[i:])
		}
	}
	return len(short) <= len(long)
}
