package config

import (
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// Located returns [Default] with the keys state_dir and admin of a file that [Load] refuses, as far as they can be read. A
// gateway that runs with an earlier version of the file is found with them. Admin.Listen is empty if the file does not show
// which address it means.
func Located(path string, env func(string) (string, bool)) *Config {
	found := Default(env)
	src := newSource(path, env, nil)
	data, err := src.read(path)
	if err != nil {
		found.Admin.Listen = ""
		return found
	}
	root, parseErr := configfile.Parse(path, data)
	hidden := false // whether admin may be in a part that cannot be read
	if parseErr != nil {
		root, hidden = readableKeys(path, data)
	}
	doc, d := decode(src, root, data)
	if doc.StateDir != "" {
		found.StateDir = doc.StateDir
	}
	wrong := func(e *Error) bool { return e.Path == "admin" || e.Path == "admin.listen" }
	if hidden || root.Kind != yaml.MappingNode || slices.ContainsFunc(d.Errors, wrong) {
		doc.Admin.Listen = ""
	}
	found.Admin = doc.Admin
	return found
}

var (
	// topLevel matches the begin of a line with a top-level key. A list may begin at the same column as its key, and the end of one in
	// brackets too.
	topLevel = regexp.MustCompile(`(?m)^[^\s#\-\]}]`)
	adminKey = regexp.MustCompile(`(?m)^[^#\n]*\badmin["']?\s*:`)
)

// readableKeys parses each top-level key of a YAML file that has errors on its own, and returns a mapping of those without
// errors. hidden reports whether only a part with errors may have the key admin.
func readableKeys(file string, data []byte) (root *yaml.Node, hidden bool) {
	root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
	starts := topLevel.FindAllIndex(data, -1)
	for i, at := range starts {
		end := len(data)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		part := data[at[0]:end]
		n, err := configfile.Parse(file, part)
		if err == nil && n.Kind == yaml.MappingNode {
			root.Content = append(root.Content, n.Content...)
		} else if adminKey.Match(part) {
			hidden = true
		}
	}
	return root, hidden && !hasKey(root, "admin")
}
