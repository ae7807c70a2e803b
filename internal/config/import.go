package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// HostFile is the configuration of a host, to import.
type HostFile struct {
	Name string // as remarks name it; its ending tells JSON (.json, .jsonc) and TOML (.toml) from YAML
	Data []byte
	// Folder is the absolute path of the folder that the file is in: what
	// relative paths in it and ${workspaceFolder} are about.
	Folder string
}

// Imported is what hosts' configurations are as a gateway.yaml.
type Imported struct {
	YAML      []byte     // a whole configuration, with comments on where each part comes from
	Upstreams int        // in it
	Variables []Variable // what has to be set for it, sorted by name
	Remarks   []Warning  // what was changed or left out, sorted by position
	// Env is a file for a shell that sets the variables whose values were moved.
	Env Secret
}

// Variable is an environment variable that an imported configuration needs.
type Variable struct {
	Name string
	// Uses are the places in the hosts' files, at most a few.
	Uses []string
	// Note says what the value is, where the name alone does not.
	Note string
	// Moved tells that the value stands in the host's file, at the first of Uses.
	// Otherwise the file referred to it by this name or a similar one.
	Moved bool
}

// Import translates hosts' configurations into one gateway.yaml. It keeps what
// they mean; every literal that may be secret becomes the reference to an
// environment variable, so neither the result nor a remark shows one. The same
// files give the same result. An error is [Errors]: a file that cannot be parsed,
// has no servers, or none that can be used.
func Import(files ...HostFile) (*Imported, error) {
	im := &importer{inputs: make(map[string]*slot)}
	var faults Errors
	for _, f := range files {
		im.file(f)
		faults = append(faults, im.d.errs...)
		im.remarks = append(im.remarks, im.d.warnings...)
	}
	if len(faults) > 0 {
		return nil, faults.sorted()
	}
	im.nameServers()
	im.nameVariables()
	im.keepWhatLoads()
	slices.SortStableFunc(im.remarks, func(a, b Warning) int { return compareErrors((*Error)(&a), (*Error)(&b)) })
	if len(im.servers) == 0 {
		for _, r := range im.remarks {
			faults = append(faults, (*Error)(&r))
		}
		return nil, append(faults, &Error{File: files[0].Name, Line: 1, Col: 1, Msg: "nothing is left to import"}).sorted()
	}
	out, err := im.write(files)
	if err != nil {
		return nil, err
	}
	return &Imported{YAML: out, Upstreams: len(im.servers), Variables: im.variables(), Remarks: im.remarks, Env: NewSecret(im.envFile(files))}, nil
}

// importer gathers the servers of all files.
type importer struct {
	servers []*hostServer
	remarks []Warning
	slots   []*slot          // what values refer to, by number
	inputs  map[string]*slot // the inputs of editors, by id

	// Of the file that is being read:
	host   HostFile
	d      *decoder
	asked  map[string]string // what its inputs are, by id
	server *hostServer       // that is being read
	here   Pos               // of the value that is being read
}

// hostServer is one server of a host's configuration. Its texts hold references
// in the form of [importer.mark].
type hostServer struct {
	key, name string
	file      string
	at        Pos
	path      path
	folder    string // what ${workspaceFolder} is, and where the program is started if nothing else is said

	command, cwd, envFile string
	args                  []string
	env, headers          []hostPair
	url, transport        string
	disabled              bool
	allow, deny           []string
	none                  bool // no tool is published
}

// hostPair is one entry of env or headers.
type hostPair struct{ name, value string }

// file reads the servers of one file.
func (im *importer) file(f HostFile) {
	im.host, im.asked = f, make(map[string]string)
	im.d = newDecoder(source{file: f.Name, dir: f.Folder})
	if len(f.Data) > maxFile {
		im.d.errs = Errors{{File: f.Name, Line: 1, Col: 1, Msg: errTooLarge.Error()}}
		return
	}
	root, fault := parseText(f.Name, f.Data)
	if fault != nil {
		fault.File = f.Name
		im.d.errs = Errors{fault}
		return
	}
	groups := im.groups(root)
	if len(im.d.errs) > 0 {
		return
	}
	found := 0
	for _, g := range groups {
		found += im.group(g)
	}
	if found == 0 && len(im.d.errs) == 0 {
		im.d.errorf(root, path{}, "no servers; they are looked for under mcpServers, servers, mcp, mcp_servers, context_servers and projects, as hosts write them")
	}
}

// hostGroup is a mapping or list of servers.
type hostGroup struct {
	node   *yaml.Node
	path   path
	folder string // as of hostServer
}

// groups finds where a file has its servers.
func (im *importer) groups(root *yaml.Node) []hostGroup {
	var groups []hostGroup
	add := func(p pair, at path) {
		if p.value.Kind == yaml.MappingNode || p.value.Kind == yaml.SequenceNode {
			groups = append(groups, hostGroup{p.value, at, workspaceOf(im.host.Folder)})
		}
	}
	top := im.d.pairs(root, path{})
	if len(top) > 0 && !slices.ContainsFunc(top, func(p pair) bool { return !isServer(p.value) }) {
		return []hostGroup{{root, path{}, workspaceOf(im.host.Folder)}} // servers without anything around them
	}
	for _, p := range top {
		at := path{}.key(p.name, p.name)
		switch p.name {
		case "mcpServers", "servers", "context_servers", "mcp_servers", "amp.mcpServers", "mcp.servers":
			add(p, at)
		case "inputs":
			im.readInputs(p.value)
		case "mcp":
			im.under(p.value, at, add)
		case "customizations": // of a development container
			for _, q := range im.children(p.value, "vscode", "mcp") {
				if q.name == "servers" {
					add(q, at.key("vscode", "").key("mcp", "").key("servers", ""))
				}
			}
		case "projects":
			for _, project := range im.children(p.value) {
				inside := at.key(project.name, "*")
				for _, q := range im.children(project.value) {
					if q.name == "mcpServers" && q.value.Kind == yaml.MappingNode {
						groups = append(groups, hostGroup{q.value, inside.key(q.name, q.name), project.name})
					}
				}
			}
		case "upstreams":
			im.d.errorf(p.key, at, "this is a configuration of the gateway already; use it as it is, with gateway run -c")
		}
	}
	return groups
}

// under finds the servers below the key mcp: editors have servers and inputs
// there, others the servers themselves.
func (im *importer) under(n *yaml.Node, at path, add func(pair, path)) {
	inside := im.children(n)
	if slices.ContainsFunc(inside, func(p pair) bool { return p.name == "servers" && !isServer(p.value) }) {
		for _, q := range inside {
			switch q.name {
			case "servers":
				add(q, at.key(q.name, q.name))
			case "inputs":
				im.readInputs(q.value)
			}
		}
		return
	}
	add(pair{value: n}, at)
}

// children are the keys of a mapping, or of one that keys lead to; none where
// there is none.
func (im *importer) children(n *yaml.Node, keys ...string) []pair {
	for _, key := range keys {
		next := (*yaml.Node)(nil)
		for _, p := range im.children(n) {
			if p.name == key {
				next = p.value
			}
		}
		if n = next; n == nil {
			return nil
		}
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	return im.d.pairs(n, path{})
}

// isServer tells whether a value has what makes a server.
func isServer(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch value := resolve(n.Content[i+1]); n.Content[i].Value {
		case "command", "url", "serverUrl", "httpUrl":
			return value.Kind == yaml.ScalarNode || value.Kind == yaml.SequenceNode
		}
	}
	return false
}

// readInputs notes what an editor asks its user for.
func (im *importer) readInputs(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		return
	}
	for _, item := range n.Content {
		var id, text string
		for _, p := range im.children(resolve(item)) {
			switch p.name {
			case "id":
				id = p.value.Value
			case "description":
				text = p.value.Value
			}
		}
		if id != "" {
			im.asked[id] = oneLine(text)
		}
	}
}

// group reads the servers of a mapping or list, and returns how many there are.
func (im *importer) group(g hostGroup) int {
	if g.node.Kind == yaml.SequenceNode {
		for i, item := range g.node.Content {
			item = resolve(item)
			at := g.path.item(i)
			key := ""
			for _, p := range im.children(item) {
				if p.name == "name" {
					key = p.value.Value
				}
			}
			if key == "" {
				key = fmt.Sprintf("server-%d", i+1)
				im.d.warnf(item, at, "has no name, and is named %s here", key)
			}
			im.entry(key, item, item, at, g.folder)
		}
		return len(g.node.Content)
	}
	pairs := im.d.pairs(g.node, g.path)
	for _, p := range pairs {
		im.entry(p.name, p.key, p.value, g.path.key(p.name, "*"), g.folder)
	}
	return len(pairs)
}

// nameServers gives each server a name of its own. One that is the same as an
// earlier one in all that matters is left out.
func (im *importer) nameServers() {
	taken := make(map[string]*hostServer)
	kept := im.servers[:0]
	for _, s := range im.servers {
		base := slug(s.key)
		if first := taken[base]; first != nil && im.same(first, s) {
			im.remark(s, "is the same as %s at %s:%v; it is kept once", show(first.key), first.file, first.at)
			continue
		}
		s.name = base
		for n := 2; taken[s.name] != nil; n++ {
			end := fmt.Sprintf("-%d", n)
			s.name = strings.TrimRight(base[:min(len(base), maxName-len(end))], "-") + end
		}
		if first := taken[base]; first != nil {
			im.remark(s, "is named %s here, since %s at %s:%v is named %s", s.name, show(first.key), first.file, first.at, base)
		} else if s.name != s.key {
			im.remark(s, "is named %s here", s.name)
		}
		taken[s.name] = s
		kept = append(kept, s)
	}
	im.servers = kept
}

// same tells whether two servers mean the same, their secrets included.
func (im *importer) same(a, b *hostServer) bool {
	return im.plain(a) == im.plain(b)
}

func (im *importer) plain(s *hostServer) string {
	var b strings.Builder
	for _, list := range [][]string{{s.command, s.cwd, s.envFile, s.url, s.transport, fmt.Sprint(s.disabled, s.none)}, s.args, s.allow, s.deny} {
		fmt.Fprintf(&b, "%q\n", im.expandAll(list, (*slot).original))
	}
	for _, pairs := range [][]hostPair{s.env, s.headers} {
		for _, p := range pairs {
			fmt.Fprintf(&b, "%q %q\n", p.name, im.expand(p.value, (*slot).original))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (im *importer) remark(s *hostServer, format string, args ...any) {
	im.remarks = append(im.remarks, Warning{s.file, s.at.Line, s.at.Col, s.path.text, fmt.Sprintf(format, args...)})
}

// keepWhatLoads leaves out servers that the loader would refuse whatever their
// variables are, and says why.
func (im *importer) keepWhatLoads() {
	set := func(string) (string, bool) { return "https://x.example", true }
	read := func(string) ([]byte, error) { return nil, nil }
	im.servers = slices.DeleteFunc(im.servers, func(s *hostServer) bool {
		doc, err := encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("upstreams"), im.mapping(s)}})
		if err == nil {
			_, err = parse(source{file: "x.yaml", env: set, read: read}, doc)
		}
		var faults Errors
		switch {
		case errors.As(err, &faults):
			im.remark(s, "is left out: %s: %s", strings.TrimPrefix(faults[0].Path, "upstreams."+s.name+"."), faults[0].Msg)
		case err != nil:
			im.remark(s, "is left out: %v", err)
		}
		return err != nil
	})
}

// workspaceOf is the folder of the project that a configuration is about:
// editors keep theirs in a folder of their own in it.
func workspaceOf(folder string) string {
	switch filepath.Base(folder) {
	case ".vscode", ".cursor", ".windsurf", ".zed", ".roo", ".continue", ".kiro", ".devcontainer":
		return filepath.Dir(folder)
	}
	return folder
}

// oneLine is text of a file for a comment or a line, within a bound.
func oneLine(text string) string {
	const most = 100
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 }), " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
