package hostimport

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// write returns gateway.yaml.
func (im *importer) write(files []File) ([]byte, error) {
	var head strings.Builder
	head.WriteString("Made by gateway import from:\n")
	for _, f := range files {
		fmt.Fprintf(&head, "  %s\n", oneLine(f.Name))
	}
	head.WriteString("\n")
	vars := im.variables()
	if im.EnvFile != "" {
		vars = slices.DeleteFunc(vars, func(v Variable) bool { return v.Moved })
	}
	if len(vars) > 0 {
		if im.EnvFile != "" {
			fmt.Fprintf(&head, "Set these variables before the start, in the environment or in %s:\n", oneLine(im.EnvFile))
		} else {
			head.WriteString("Set these environment variables before the start:\n")
		}
		for _, v := range vars {
			fmt.Fprintf(&head, "  %s", v.Name)
			if v.Note != "" {
				fmt.Fprintf(&head, "  (%s)", oneLine(v.Note))
			}
			head.WriteByte('\n')
		}
		head.WriteString("\n")
	}
	servers := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range im.servers {
		servers.Content = append(servers.Content, im.mapping(s).Content...)
	}
	body, err := encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("upstreams"), servers}})
	if err != nil {
		return nil, err
	}
	out := []byte(comment(head.String()))
	if im.EnvFile != "" {
		key, err := encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("env_file"), text(im.EnvFile)}})
		if err != nil {
			return nil, err
		}
		out = append(append(out, key...), '\n')
	}
	return append(out, body...), nil
}

// results are the servers for the caller.
func (im *importer) results() []Server {
	var out []Server
	for _, s := range im.servers {
		out = append(out, Server{Name: s.name, From: from(s), Value: im.mapping(s).Content[1]})
	}
	return out
}

// from is the place of a server in its host's file.
func from(s *server) string {
	return fmt.Sprintf("from %s:%v (%s)", oneLine(s.file), s.at, cmp.Or(oneLine(s.path.Text), "the file itself"))
}

// envFile is a file for a shell with the values that were moved, and a comment for each variable
// whose value the hosts' files do not contain.
func (im *importer) envFile(files []File) string {
	var b strings.Builder
	b.WriteString("# Values that gateway import moved out of:\n")
	for _, f := range files {
		fmt.Fprintf(&b, "#   %s\n", oneLine(f.Name))
	}
	if im.EnvFile != "" {
		b.WriteString("# The configuration names this file as env_file.\n\n")
	} else {
		b.WriteString("# Load them into a shell with: set -a; . ./THIS_FILE; set +a\n\n")
	}
	b.WriteString(im.values(true))
	return b.String()
}

// values are lines with the values that were moved, and with comments for the others if that is set.
func (im *importer) values(comments bool) string {
	var b strings.Builder
	moved := make(map[string]*placeholder)
	for _, s := range im.used() {
		moved[s.name] = s
	}
	for _, v := range im.variables() {
		if v.Moved {
			fmt.Fprintf(&b, "%s=%s\n", v.Name, im.shellWord(moved[v.Name].text))
		} else if comments {
			fmt.Fprintf(&b, "# %s is not in these files.\n", v.Name)
		}
	}
	return b.String()
}

// literalLine is the line of values with a variable, "" if there is none or if it refers to other variables.
func (im *importer) literalLine(s *placeholder) string {
	if !s.moved || unmarked(s.text) != s.text {
		return ""
	}
	return s.name + "=" + im.shellWord(s.text)
}

var (
	inSingleQuotes = strings.NewReplacer(`'`, `'\''`)
	inDoubleQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`)
)

// shellWord quotes a value for a shell, which expands the references in it.
func (im *importer) shellWord(text string) string {
	if unmarked(text) == text {
		return "'" + inSingleQuotes.Replace(text) + "'"
	}
	return `"` + im.expand(inDoubleQuotes.Replace(text), shellRef) + `"`
}

// shellRef is a reference within double quotes of a shell.
func shellRef(s *placeholder) string {
	name, fallback, has := strings.Cut(cmp.Or(s.ref, s.name, s.base), ":-")
	if has {
		name += ":-" + inDoubleQuotes.Replace(fallback)
	}
	return "${" + name + "}"
}

// comment converts text to comment lines; empty lines stay.
func comment(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString("# ")
		}
		b.WriteString(line)
	}
	return b.String()
}

func encode(root *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// mapping is one server under its name.
func (im *importer) mapping(s *server) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	put := func(key string, value *yaml.Node) { m.Content = append(m.Content, text(key), value) }
	putText := func(key, value string) {
		if value != "" {
			put(key, text(im.render(value)))
		}
	}
	putText("command", s.command)
	if len(s.args) > 0 {
		put("args", list(im.renderAll(s.args)))
	}
	putText("url", s.url)
	putText("transport", s.transport)
	putText("cwd", s.cwd)
	putText("timeout", s.timeout)
	if len(s.env) > 0 {
		put("env", im.pairs(s.env))
	}
	putText("envFile", s.envFile)
	if len(s.headers) > 0 {
		put("headers", im.pairs(s.headers))
	}
	if s.disabled {
		put("disabled", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
	if len(s.allow)+len(s.deny) > 0 || s.none {
		tools := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range []struct {
			key   string
			names []string
		}{{"allow", s.allow}, {"deny", s.deny}} {
			if len(f.names) > 0 || s.none && f.key == "allow" {
				tools.Content = append(tools.Content, text(f.key), list(im.renderAll(f.names)))
			}
		}
		put("tools", tools)
	}
	name := text(s.name)
	name.HeadComment = from(s)
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{name, m}}
}

func (im *importer) renderAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = im.render(t)
	}
	return out
}

func (im *importer) pairs(pairs []entry) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	for _, p := range pairs {
		m.Content = append(m.Content, text(p.name), text(im.render(p.value)))
	}
	return m
}

// text is a string; the encoder quotes it if YAML would read it as another type.
func text(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
}

// list is a list of strings on one line.
func list(items []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, s := range items {
		n.Content = append(n.Content, text(s))
	}
	return n
}
