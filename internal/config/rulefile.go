package config

import (
	"path/filepath"
	"reflect"

	"gopkg.in/yaml.v3"
)

// maxRuleFiles bounds how many files of rules there may be.
const maxRuleFiles = 100

// ruleFile is a file of rules that is a mapping.
type ruleFile struct {
	Rules []Rule `yaml:"rules" doc:"the rules"`
}

// rulesOf reads a file of rules, the one of policy.files at index i. Its faults are
// reported as its own; that it cannot be read is one of the configuration.
func (d *decoder) rulesOf(file string, i int) []Rule {
	at, p := d.filesNode(i)
	if i >= maxRuleFiles {
		if i == maxRuleFiles {
			d.errorf(at, p, "there are more than %d files", maxRuleFiles)
		}
		return nil
	}
	data, err := d.read(file)
	if err != nil {
		d.errorf(at, p, "cannot be read: %v", reason(err))
		return nil
	}
	root, fault := parseText(file, data)
	if fault != nil {
		fault.File = file
		d.errs = append(d.errs, fault)
		return nil
	}
	own := &decoder{source: d.source, vars: d.vars, budget: d.budget, data: data}
	own.file, own.dir = file, filepath.Dir(file)
	own.vars.src = own.source
	var rules ruleFile
	switch root.Kind {
	case yaml.SequenceNode:
		f := shapeOf(reflect.TypeFor[ruleFile]()).byName["rules"]
		own.list(root, path{}, f, reflect.ValueOf(&rules.Rules).Elem())
	case yaml.MappingNode:
		own.structure(root, root, path{}, "", reflect.ValueOf(&rules).Elem())
	default:
		own.errorf(root, path{}, "must be a list of rules or a mapping with rules, not %s", kindWords(root))
	}
	d.vars.left, d.vars.put, d.budget = own.vars.left, own.vars.put, own.budget
	d.errs, d.warnings = append(d.errs, own.errs...), append(d.warnings, own.warnings...)
	for _, r := range own.rules {
		// What is found later is reported with the rest.
		r.at.d = &decoder{source: own.source, budget: 1, parent: d}
	}
	d.rules = append(d.rules, own.rules...)
	return rules.Rules
}

// filesNode is the place of an element of policy.files.
func (d *decoder) filesNode(i int) (*yaml.Node, path) {
	p := path{}.key("policy", "policy").key("files", "files").item(i)
	node := d.root
	for _, key := range []string{"policy", "files"} {
		if next := child(node, key); next != nil {
			node = next
		}
	}
	if node.Kind == yaml.SequenceNode && i < len(node.Content) {
		node = resolve(node.Content[i])
	}
	return node, p
}

// child is the value of a key of a mapping, nil when it has none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}
