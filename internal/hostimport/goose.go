package hostimport

import (
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// timeoutKey is the key of a duration with its unit. No host writes it: gooseEntry makes it.
const timeoutKey = "\x00timeout"

// gooseKeys are the names that other hosts have for the keys of Goose.
var gooseKeys = map[string]string{"cmd": "command", "envs": "env", "env_keys": "env_vars", "uri": "url", "available_tools": "enabledTools"}

// gooseEntry returns an extension of Goose with the keys of other hosts, nil if it is left out.
func (im *importer) gooseEntry(p configfile.Pair, at configfile.Path) *yaml.Node {
	if p.Value.Kind != yaml.MappingNode {
		return p.Value // entry reports it
	}
	out := *p.Value
	out.Content = nil
	im.spelt = map[string]string{timeoutKey: "timeout"}
	for _, q := range im.file.Pairs(p.Value, at) {
		key, value := *q.Key, q.Value
		if name, ok := gooseKeys[q.Name]; ok {
			key.Value, im.spelt[name] = name, q.Name
		}
		switch q.Name {
		case "type":
			switch value.Value {
			case "builtin", "platform", "frontend", "inline_python":
				im.file.Warnf(p.Key, at, "is left out: it is a part of Goose (type %s)", value.Value)
				return nil
			}
		case "bundled", "display_name":
			continue
		case "available_tools":
			if len(value.Content) == 0 { // all
				continue
			}
		case "timeout": // in seconds
			if value.Tag != "!!int" || value.Value == "0" {
				continue
			}
			seconds := *value
			seconds.Tag, seconds.Value = "!!str", value.Value+"s"
			key.Value, value = timeoutKey, &seconds
		}
		out.Content = append(out.Content, &key, value)
	}
	return &out
}
