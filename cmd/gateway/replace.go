package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
)

// serverKeys are the keys of an upstream that say which server it is and what is sent to it. add --replace replaces
// them and keeps all others.
var serverKeys = []string{"command", "args", "cwd", "env", "url", "urls", "type", "transport", "headers", "auth"}

// replacement has the changes of add --replace to the keys of an upstream.
type replacement struct{ set, removed, kept []string }

// print lists the keys.
func (r *replacement) print(out io.Writer) {
	for _, l := range []struct {
		title string
		keys  []string
	}{{"set", r.set}, {"removed", r.removed}, {"kept", r.kept}} {
		if len(l.keys) > 0 {
			folded(out, "  %-8s %s\n", l.title+":", strings.Join(l.keys, ", "))
		}
	}
}

// entryOf returns the value of an upstream, which must be written where it is to be replaced.
func entryOf(e *configfile.Edit, section, key string) (*yaml.Node, error) {
	if all := configfile.Child(e.Root(), section); all != nil {
		for i := 0; i+1 < len(all.Content); i += 2 {
			switch value := all.Content[i+1]; {
			case all.Content[i].Value != key:
			case value.Kind == yaml.MappingNode:
				return value, nil
			case configfile.IsNull(value):
				return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, nil
			}
		}
	}
	return nil, fmt.Errorf("the upstream %s is written elsewhere in the file (an alias, or a merge with <<); edit it by hand", key)
}

// replaced is an entry with the keys of a server replaced. Other keys, comments and the order stay; the comment above a
// key that is removed goes to the next one.
func replaced(old, server *yaml.Node) (*yaml.Node, *replacement) {
	out, r, rest := *old, new(replacement), slices.Clone(server.Content)
	out.Content = nil
	insert, comment := 0, ""
	for i := 0; i+1 < len(old.Content); i += 2 {
		key, value := *old.Content[i], old.Content[i+1]
		if comment != "" {
			key.HeadComment, comment = strings.TrimSuffix(comment+"\n"+key.HeadComment, "\n"), ""
		}
		if slices.Contains(serverKeys, key.Value) {
			at := slices.IndexFunc(rest, func(n *yaml.Node) bool { return n.Value == key.Value })
			if at < 0 || at%2 != 0 {
				r.removed = append(r.removed, key.Value)
				comment = key.HeadComment
				continue
			}
			value = rest[at+1]
			rest = slices.Delete(rest, at, at+2)
			r.set = append(r.set, key.Value)
			out.Content = append(out.Content, &key, value)
			insert = len(out.Content)
			continue
		}
		r.kept = append(r.kept, key.Value)
		out.Content = append(out.Content, &key, value)
	}
	for i := 0; i+1 < len(rest); i += 2 {
		r.set = append(r.set, rest[i].Value)
	}
	if comment != "" && len(rest) > 0 {
		rest[0].HeadComment = comment
	}
	out.Content = slices.Insert(out.Content, insert, rest...)
	return &out, r
}

// replace turns the value of the new server into that of the upstream that it replaces.
func (e *edited) replace(key string, server *yaml.Node) (*yaml.Node, *replacement, error) {
	old, err := entryOf(e.Edit, e.section, key)
	if err != nil {
		return nil, nil, err
	}
	value, r := replaced(old, server)
	return value, r, nil
}

// forget has the variables to which only the replaced server refers count as left over, so that new values can take their place.
// Others stay in the env_file: they may be the only copy, or serve another configuration.
func (e *edited) forget(key string) error {
	rest, bad := configfile.NewEdit(e.name, e.Bytes())
	if bad != nil {
		return config.Errors{bad}
	}
	old, err := entryOf(rest, e.section, key)
	if err != nil {
		return err
	}
	without, _ := replaced(old, &yaml.Node{Kind: yaml.MappingNode})
	if rest.Set(e.section, key, without) != nil {
		return nil // the values stay, and the new ones get other names
	}
	e.text = string(rest.Bytes())
	return nil
}
