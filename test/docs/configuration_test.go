package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/config"

	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "write docs/configuration.md, and what commands print into the documents")

// TestConfigurationPage checks that docs/configuration.md is generated from the schema and the comments of gateway.yaml.example. A key is described by
// its comment in the example or, without one, by its line in the schema.
func TestConfigurationPage(t *testing.T) {
	want := configurationPage(t)
	file := filepath.Join(root, "docs", "configuration.md")
	if *update {
		must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	must(t, err)
	if string(got) != want {
		t.Errorf("docs/configuration.md is out of date with the schema and gateway.yaml.example; run go test ./test/docs -run TestConfigurationPage -update")
	}
}

// TestRestartKeys checks the keys that need a restart according to gateway.yaml.example.
func TestRestartKeys(t *testing.T) {
	var want []string
	for _, key := range config.Keys() {
		// A mapping is named instead of its keys if all of them need a restart.
		if key.Reload || slices.ContainsFunc(want, func(p string) bool { return below(key.Path, p) }) ||
			slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return below(k.Path, key.Path) && k.Reload }) {
			continue
		}
		want = append(want, key.Path)
	}
	_, head := example(t)
	m := regexp.MustCompile(`needs a restart \(([^)]*)\)`).FindStringSubmatch(strings.Join(strings.Fields(head), " "))
	if m == nil || m[1] != strings.Join(want, ", ") {
		t.Errorf("gateway.yaml.example says that %q need a restart; want %s", m, strings.Join(want, ", "))
	}
}

// below reports whether a key is in the mapping at parent, or in an element of the list at parent.
func below(key, parent string) bool {
	return strings.HasPrefix(key, parent+".") || strings.HasPrefix(key, parent+"[]")
}

const configurationHead = `<!-- Made from internal/config and gateway.yaml.example: go test ./test/docs -run TestConfigurationPage -update -->
# Configuration

This page has every key of ` + "`gateway.yaml`" + `. [` + "`gateway.yaml.example`" + `](../gateway.yaml.example) has them in one file to copy from.
` + "`gateway check --offline`" + ` reads a file and reports all its errors.

`

const configurationForms = `
In the paths below ` + "`*`" + ` stands for a name that you choose, and ` + "`[]`" + ` for each element of a list. *Reload* means that a
running gateway applies a change. *Reload with a new connection* means that the gateway also reconnects to the upstream, which ends
its sessions. Until the new connection has been tried, at most for ` + "`startup_wait`" + `, the one before answers calls.
*Restart* means that the gateway must be restarted.
`

func configurationPage(t *testing.T) string {
	comments, head := example(t)
	var b strings.Builder
	b.WriteString(configurationHead)
	i := strings.Index(head, "The file is strict")
	if i < 0 {
		t.Fatal("the head of gateway.yaml.example does not say how strictly the file is read")
	}
	b.WriteString(prose(head[i:])) // the text before that is about the example
	b.WriteString(configurationForms)
	var sections []string
	for _, key := range config.Keys() {
		if !strings.Contains(key.Path, ".") {
			sections = append(sections, fmt.Sprintf("[`%s`](#%s)", key.Path, key.Path))
		}
	}
	b.WriteString("\n" + strings.Join(sections, " ·\n") + "\n")
	for _, key := range config.Keys() {
		level := "###"
		if !strings.ContainsAny(key.Path, ".[") {
			level = "##"
		}
		fmt.Fprintf(&b, "\n%s `%s`\n\n%s\n\n", level, key.Path, facts(key))
		text := comments[key.Path]
		if text == "" || onlyValues(text, key) {
			text = strings.ToUpper(key.Doc[:1]) + key.Doc[1:] + "."
		}
		b.WriteString(prose(text))
	}
	return b.String()
}

// facts returns the line about the type and the values of a key.
func facts(key config.Key) string {
	parts := []string{"`" + key.Type + "`"}
	if strings.Contains(key.Type, "|") || !strings.ContainsAny(key.Type, "<>`") {
		parts[0] = key.Type
	}
	switch {
	case key.Min != "" && key.Max != "":
		parts = append(parts, fmt.Sprintf("from `%s` to `%s`", key.Min, key.Max))
	case key.Min != "":
		parts = append(parts, fmt.Sprintf("at least `%s`", key.Min))
	case key.Max != "":
		parts = append(parts, fmt.Sprintf("at most `%s`", key.Max))
	}
	if key.Default != "" {
		parts = append(parts, "default `"+key.Default+"`")
	}
	if len(key.Aliases) > 0 {
		parts = append(parts, "also written `"+strings.Join(key.Aliases, "`, `")+"`")
	}
	when := "restart"
	if key.Reload {
		when = "reload"
		if key.Reconnect {
			when = "reload with a new connection"
		}
	} else if slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return below(k.Path, key.Path) && k.Reload }) {
		when = "reload or restart, by key"
	}
	return "*" + strings.Join(append(parts, when), " · ") + "*"
}

// onlyValues reports whether a comment only lists the possible values.
func onlyValues(text string, key config.Key) bool {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,.\n", r) }) {
		if !slices.Contains(strings.Fields(key.Type), strings.ToLower(word)) {
			return false
		}
	}
	return true
}

var (
	outOfUse = regexp.MustCompile(`(?m)^( *)#(- )?([a-zA-Z_0-9]+:)`)
	comment  = regexp.MustCompile(`^ *# ?(.*)$`)
	trailing = regexp.MustCompile(`^[^"']*?\s# (.*)$`)
)

// example returns the comments of gateway.yaml.example by the path of their key, and the comment at its head.
func example(t *testing.T) (comments map[string]string, head string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "gateway.yaml.example"))
	must(t, err)
	text = outOfUse.ReplaceAll(text, []byte("$1$2$3"))
	lines := strings.Split(string(text), "\n")
	var node yaml.Node
	must(t, yaml.Unmarshal(text, &node))
	comments = make(map[string]string)
	about(node.Content[0], "", lines, comments)
	for i := 0; i < len(lines) && comment.MatchString(lines[i]); i++ {
		head += comment.FindStringSubmatch(lines[i])[1] + "\n"
	}
	if head == "" || len(comments) == 0 {
		t.Fatal("gateway.yaml.example has no comments")
	}
	return comments, head
}

// about collects the comments of a node's keys, by path. The first of two equal paths counts.
func about(n *yaml.Node, at string, lines []string, comments map[string]string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			path := strings.TrimPrefix(at+"."+n.Content[i].Value, ".")
			if at == "upstreams" || strings.HasSuffix(at, ".override") {
				path = at + ".*"
			}
			if text := commentOf(lines, n.Content[i].Line-1); text != "" && comments[path] == "" {
				comments[path] = text
			}
			about(n.Content[i+1], path, lines, comments)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			about(item, at+"[]", lines, comments)
		}
	}
}

// commentOf returns the comment above a line and at its end.
func commentOf(lines []string, i int) string {
	first := i
	for first > 0 && comment.MatchString(lines[first-1]) {
		first--
	}
	var b strings.Builder
	for _, l := range lines[first:i] {
		b.WriteString(comment.FindStringSubmatch(l)[1] + "\n")
	}
	if m := trailing.FindStringSubmatch(lines[i]); m != nil && m[1] != "an example" {
		text := strings.ToUpper(m[1][:1]) + m[1][1:]
		b.WriteString(strings.TrimSuffix(text, ".") + ".\n")
	}
	return b.String()
}

var entry = regexp.MustCompile(`^  +(\S+(?: \S+)*?)  +(.*)$`)

// prose converts a comment to Markdown: its paragraphs, and a list for indented lines.
func prose(text string) string {
	var b strings.Builder
	var was string
	for _, l := range strings.Split(strings.TrimRight(text, "\n "), "\n") {
		kind := "text"
		switch m := entry.FindStringSubmatch(l); {
		case strings.TrimSpace(l) == "":
			kind, l = "", ""
		case m != nil && !strings.HasPrefix(l, "      "):
			kind, l = "list", "- `"+m[1]+"`: "+escape(m[2])
		case strings.HasPrefix(l, "  "):
			kind, l = "list", "  "+escape(strings.TrimSpace(l))
		default:
			l = escape(l)
		}
		if kind != was && was != "" && kind != "" {
			b.WriteString("\n")
		}
		b.WriteString(l + "\n")
		was = kind
	}
	return b.String()
}

// literal matches text that is formatted as code: references, forms of names, and the names of keys that are no words.
var literal = regexp.MustCompile(`\$\{[^}]*\}|\{\{.*?\}\}|<[a-z_]+>(?:<[a-z]+>)*(?:/[a-z/]+)?|\b[a-z]+(?:[_.][a-z]+)*_[a-z_]+(?:\.[a-z]+)*\b|\b(?:auth|admin|bridge|limits|telemetry|policy|tls|tools|resources)\.[a-z]+\b|\binputSchema\b`)

// escape escapes the parts of a comment that Markdown would interpret.
func escape(text string) string {
	var b strings.Builder
	for text != "" {
		at := literal.FindStringIndex(text)
		if at == nil {
			at = []int{len(text), len(text)}
		}
		b.WriteString(strings.ReplaceAll(text[:at[0]], "*", `\*`))
		if at[0] < at[1] {
			b.WriteString("`" + text[at[0]:at[1]] + "`")
		}
		text = text[at[1]:]
	}
	return b.String()
}

// TestCommentsAreOfOneKey checks that a comment of gateway.yaml.example is about the key below it alone: the page shows it for that key, and another one
// that it describes would have no description.
func TestCommentsAreOfOneKey(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "gateway.yaml.example"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(outOfUse.ReplaceAll(text, []byte("$1$2$3"))), "\n")
	key := regexp.MustCompile(`^( *)([A-Za-z_]+):`)
	for i, line := range lines {
		m := key.FindStringSubmatch(line)
		if m == nil || i == 0 || !comment.MatchString(lines[i-1]) {
			continue
		}
		next := i + 1
		for next < len(lines) && strings.HasPrefix(lines[next], m[1]+" ") {
			next++ // what the key contains
		}
		if next == len(lines) {
			break
		}
		if n := key.FindStringSubmatch(lines[next]); n != nil && n[1] == m[1] && !strings.Contains(lines[next], " # ") {
			t.Errorf("gateway.yaml.example:%d: %s has no comment of its own, and follows %s, which has one", next+1, n[2], m[2])
		}
	}
}
