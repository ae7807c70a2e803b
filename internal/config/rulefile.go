package config

import (
	"reflect"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// maxRuleFiles bounds the number of rule files.
const maxRuleFiles = 100

// ruleFile is a rule file that is a mapping.
type ruleFile struct {
	Rules []Rule `yaml:"rules" doc:"the rules"`
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
		d.Errorf(at, p, "cannot be read: %v", configfile.Reason(err))
		return nil
	}
	root, parseErr := configfile.Parse(file, data)
	if parseErr != nil {
		d.Errors = append(d.Errors, parseErr)
		return nil
	}
	own := d.ofFile(file, root, data)
	var rules ruleFile
	switch root.Kind {
	case yaml.SequenceNode:
		f := shapeOf(reflect.TypeFor[ruleFile]()).byName["rules"]
		own.list(root, configfile.Path{}, f, reflect.ValueOf(&rules.Rules).Elem())
	case yaml.MappingNode:
		own.structure(root, root, configfile.Path{}, "", reflect.ValueOf(&rules).Elem())
	default:
		own.Errorf(root, configfile.Path{}, "must be a list of rules or a mapping with rules, not %s", configfile.KindOf(root))
	}
	return rules.Rules
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
