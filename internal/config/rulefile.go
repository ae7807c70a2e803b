package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// maxRuleFiles bounds the number of rule files.
const maxRuleFiles = 100

// ruleFile is a rule file that is a mapping.
type ruleFile struct {
	Rules []Rule `yaml:"rules" doc:"the rules"`
}

// check demands rules, or an empty list that is written out. A file without content was probably
// truncated while it was written, and its deny rules would be gone without a word.
func (f *ruleFile) check(m *mapping) {
	none := "[]"
	if strings.EqualFold(filepath.Ext(m.d.file), ".toml") {
		none = "rules = []"
	}
	switch rules, given := m.given["rules"]; {
	case given && configfile.IsNull(rules.Value):
		m.errorf("rules", "has no rules; write [] if there shall be none")
	case !given && len(m.intended) == 0:
		m.errorf("", "the file has no rules; write %s if it shall have none", none)
	}
}

// rulesOf reads the rule file at index i of policy.files. Errors in it have the name of that file; if it
// cannot be read, that is an error of the configuration.
func (d *decoder) rulesOf(file string, i int) []Rule {
	at, p := d.filesNode(i)
	if i >= maxRuleFiles {
		if i == maxRuleFiles {
			d.Errorf(at, p, "there are more than %d files", maxRuleFiles)
		}
		return nil
	}
	data, err := d.read(file)
	if err != nil {
		d.Errorf(at, p, "%s", unreadable(file, err))
		return nil
	}
	root, parseErr := configfile.Parse(file, data)
	if parseErr != nil {
		d.Errors = append(d.Errors, parseErr)
		return nil
	}
	own := d.ofFile(file, root, data)
	var rules ruleFile
	switch {
	case root.Kind == yaml.SequenceNode:
		f := shapeOf(reflect.TypeFor[ruleFile]()).byName["rules"]
		own.list(root, configfile.Path{}, f, reflect.ValueOf(&rules.Rules).Elem())
	case root.Kind == yaml.MappingNode || configfile.IsNull(root):
		own.structure(root, root, configfile.Path{}, "", reflect.ValueOf(&rules).Elem())
	default:
		own.Errorf(root, configfile.Path{}, "must be a list of rules or a mapping with rules, not %s", configfile.KindOf(root))
	}
	return rules.Rules
}

// unreadable says which file of a list cannot be read, and why.
func unreadable(file string, err error) string {
	text := fmt.Sprintf("%q cannot be read: %v", file, configfile.Reason(err))
	switch {
	case errors.Is(err, syscall.EISDIR):
		text += "; name each of its files"
	case strings.ContainsAny(filepath.Base(file), "*?["):
		text += "; globs are not expanded, so name each file"
	}
	return text
}

// elementPath is the path of a mapping in a list. That of a rule in a rule file begins with the name
// of the rule, since such a path has nothing else than an index.
func elementPath(list configfile.Path, i int, item *yaml.Node, f *field) configfile.Path {
	p := list.Item(i)
	if f.typ != reflect.TypeFor[Rule]() || list.Pattern != "" && list.Pattern != "rules" {
		return p
	}
	if name := configfile.Child(item, "name"); name != nil && ruleNameForm.MatchString(name.Value) {
		p.Text = fmt.Sprintf("rule %q: %s", name.Value, p.Text)
	}
	return p
}

// filesNode is the node of an element of policy.files.
func (d *decoder) filesNode(i int) (*yaml.Node, configfile.Path) {
	p := configfile.Path{}.Key("policy", "policy").Key("files", "files").Item(i)
	node := d.root
	for _, key := range []string{"policy", "files"} {
		if next := configfile.Child(node, key); next != nil {
			node = next
		}
	}
	if node.Kind == yaml.SequenceNode && i < len(node.Content) {
		node = configfile.Resolve(node.Content[i])
	}
	return node, p
}
