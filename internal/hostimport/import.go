package hostimport

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
)

// File is a configuration of a host.
type File struct {
	Name string // the name in warnings; its extension selects the language, see [configfile.Parse]
	Data []byte
	// Folder is the absolute path of the folder of the file: relative paths refer to it. So does
	// ${workspaceFolder}, except in a file of the user in VS Code.
	Folder string
	// Gateway is the entry of a gateway, with a URL, that gateway connect has written; the zero Gateway if there is none. Servers
	// that are this entry are left out.
	Gateway Gateway
}

// Gateway is an entry in the file of a host.
type Gateway struct{ Name, URL string }

// isGemini reports whether the file is one of Gemini CLI, which expands $NAME too and has timeouts in milliseconds.
func (f File) isGemini() bool {
	switch filepath.Base(f.Folder) {
	case ".gemini", "gemini-cli", "GeminiCli": // of the user or a project, and of the system
		return true
	}
	return false
}

// isUserOfVSCode reports whether the file is one of the user in VS Code, on any system. It belongs to no project.
func (f File) isUserOfVSCode() bool {
	return userOfVSCode.MatchString(filepath.ToSlash(f.Folder))
}

// userOfVSCode matches the folders of the user in VS Code, its relatives and their servers.
var userOfVSCode = regexp.MustCompile(`/(Code( - [^/]+)?|VSCodium|code-server|data|user-data)/User(/profiles/[^/]+)?$`)

// Options say what the configuration is for. The zero value makes a complete configuration.
type Options struct {
	// Into is the configuration that the servers are added to. Servers that it has are left out.
	Into *config.Config
	// Taken reports whether a variable that needs a name must not get this one; nil: all are free. moved says that the file
	// of the host has the value of the variable, which replaces one that is there; else the user sets it. line is the line of
	// Values that sets the variable, "" if there is none or if it refers to other variables.
	Taken func(variable string, moved bool, line string) bool
	// EnvFile is the value of env_file in the result, for the file that has Result.Env; "" for none.
	EnvFile string
	// Program is the name of the gateway's own program, without a folder. Servers that start it are left out.
	Program string
	// Served names the running gateway that a URL leads to, "" for none. own says that it runs with the configuration
	// that the servers are for. nil: none runs.
	Served func(url string) (gateway string, own bool)
	// Gateways keeps servers that are this gateway, or start one.
	Gateways bool
	// Escapes takes $${ as gateway.yaml does, for the characters ${. Hosts have no such escape.
	Escapes bool
}

// Server is one server of a result.
type Server struct {
	Name  string
	From  string     // the place in the host's file, for a comment
	Value *yaml.Node // the entry below upstreams
}

// Result is a gateway.yaml made of hosts' configurations.
type Result struct {
	YAML      []byte               // a whole configuration, with comments that name the source of each part
	Upstreams int                  // number of upstreams
	Servers   []Server             // the upstreams
	Variables []Variable           // the variables that it needs, sorted by name
	Warnings  []configfile.Warning // about everything that was changed or left out, sorted by position
	// Env is a file for a shell that sets the variables whose values were moved. Values are its lines without comments.
	Env, Values config.Secret
}

// Variable is an environment variable that an imported configuration needs.
type Variable struct {
	Name string
	// Uses are positions in the hosts' files, at most three.
	Uses []string
	// Note describes the value, if the name alone does not.
	Note string
	// Moved says that the value is in the host's file, at the first of Uses. Otherwise the file refers to
	// the variable by this name or a similar one.
	Moved bool
}

// Import translates hosts' configurations into one gateway.yaml. Values of env and headers and recognized
// secrets become references to environment variables, see the package comment; neither the YAML nor a
// warning contains them. The same files give the same result in the same environment. The error is
// [configfile.Errors]: a file cannot be parsed, or has no servers that can be used; with Into it is no error
// if every server is left out.
func (o Options) Import(files ...File) (*Result, error) {
	im := &importer{Options: o, inputs: make(map[string]*placeholder)}
	var errs configfile.Errors
	for _, f := range files {
		im.readFile(f)
		errs = append(errs, im.file.Errors...)
		im.warnings = append(im.warnings, im.file.Warnings...)
	}
	if len(errs) > 0 {
		return nil, errs.Sorted()
	}
	im.nameServers()
	im.nameVariables()
	im.removeInvalid()
	slices.SortStableFunc(im.warnings, configfile.CompareWarnings)
	if len(im.servers) == 0 && o.Into == nil {
		for _, r := range im.warnings {
			errs = append(errs, (*configfile.Error)(&r))
		}
		return nil, append(errs, &configfile.Error{File: files[0].Name, Line: 1, Col: 1, Msg: "no server can be imported"}).Sorted()
	}
	out, err := im.write(files)
	if err != nil {
		return nil, err
	}
	return &Result{YAML: out, Upstreams: len(im.servers), Servers: im.results(), Variables: im.variables(), Warnings: im.warnings, Env: config.NewSecret(im.envFile(files)), Values: config.NewSecret(im.values(false))}, nil
}

// importer gathers the servers of all files.
type importer struct {
	Options
	servers      []*server
	warnings     []configfile.Warning
	placeholders []*placeholder          // by number
	inputs       map[string]*placeholder // the inputs of editors and the folder that is open in one, by id

	// State of the current file:
	host   File
	file   configfile.Reader
	asked  map[string]string // descriptions of its inputs, by id
	server *server           // the current one
	here   configfile.Pos    // of the current value
	spelt  map[string]string // the names of keys in the file, if gooseEntry has replaced them

	unset []config.UnsetVariable // those of the upstream that a server is compared with
}

// server is one server of a host's configuration. Its texts contain references in the form of
// [importer.mark].
type server struct {
	key, name string
	file      string
	gateway   Gateway // of the file
	at        configfile.Pos
	path      configfile.Path
	folder    string // the value of ${workspaceFolder}, and the default working directory
	fixed     bool   // a warning says what ${workspaceFolder} becomes

	command, cwd, envFile string
	args                  []string
	env, headers          []entry
	headerKeys            []string // the keys of the file that have headers
	url, transport        string
	timeout               string // with its unit
	disabled              bool
	allow, deny           []string
	none                  bool // publish no tool
}

// entry is one entry of env or headers.
type entry struct{ name, value string }

// maxFile bounds the file of a host. Claude Code keeps the history of its projects beside its servers.
const maxFile = 64 << 20

// readFile reads the servers of one file.
func (im *importer) readFile(f File) {
	im.host, im.asked = f, make(map[string]string)
	im.file = configfile.Reader{File: f.Name, Report: configfile.NewReport()}
	root, parseErr := configfile.ParseUpTo(f.Name, f.Data, maxFile)
	if parseErr != nil {
		im.file.Errors = configfile.Errors{parseErr}
		return
	}
	groups := im.groups(root)
	if len(im.file.Errors) > 0 {
		return
	}
	found := 0
	for _, g := range groups {
		found += im.group(g)
	}
	if found == 0 && len(im.file.Errors) == 0 {
		im.file.Errorf(root, configfile.Path{}, "no servers; they are looked for under mcpServers, servers, mcp, mcp_servers, context_servers, extensions and projects, as hosts write them")
	}
}

// group is a mapping or list of servers.
type group struct {
	node   *yaml.Node
	path   configfile.Path
	folder string // as of server
	goose  bool   // the keys of an entry are those of Goose
}

// groups finds the servers of a file.
func (im *importer) groups(root *yaml.Node) []group {
	var groups []group
	add := func(p configfile.Pair, at configfile.Path) {
		if p.Value.Kind == yaml.MappingNode || p.Value.Kind == yaml.SequenceNode {
			groups = append(groups, group{node: p.Value, path: at, folder: workspaceOf(im.host.Folder)})
		}
	}
	top := im.file.Pairs(root, configfile.Path{})
	if len(top) > 0 && !slices.ContainsFunc(top, func(p configfile.Pair) bool { return !config.IsServer(p.Value) }) {
		return []group{{node: root, folder: workspaceOf(im.host.Folder)}} // servers at the top of the file
	}
	for _, p := range top {
		at := configfile.Path{}.Key(p.Name, p.Name)
		switch p.Name {
		case "mcpServers", "servers", "context_servers", "mcp_servers", "amp.mcpServers", "mcp.servers":
			add(p, at)
		case "extensions":
			if config.IsGoose(p.Value) {
				groups = append(groups, group{node: p.Value, path: at, folder: workspaceOf(im.host.Folder), goose: true})
			}
		case "inputs":
			im.readInputs(p.Value)
		case "mcp":
			im.under(p.Value, at, add)
		case "customizations": // of a development container
			for _, q := range im.children(p.Value, "vscode", "mcp") {
				if q.Name == "servers" {
					add(q, at.Key("vscode", "").Key("mcp", "").Key("servers", ""))
				}
			}
		case "projects":
			for _, project := range im.children(p.Value) {
				inside := at.Key(project.Name, "*")
				for _, q := range im.children(project.Value) {
					if q.Name == "mcpServers" && q.Value.Kind == yaml.MappingNode {
						groups = append(groups, group{node: q.Value, path: inside.Key(q.Name, q.Name), folder: project.Name})
					}
				}
			}
		case "upstreams":
			im.file.Errorf(p.Key, at, "this is already a configuration of the gateway; use it with gateway run -c")
		}
	}
	return groups
}

// under finds the servers below the key mcp: editors write servers and inputs there, other hosts the
// servers themselves.
func (im *importer) under(n *yaml.Node, at configfile.Path, add func(configfile.Pair, configfile.Path)) {
	inside := im.children(n)
	if slices.ContainsFunc(inside, func(p configfile.Pair) bool { return p.Name == "servers" && !config.IsServer(p.Value) }) {
		for _, q := range inside {
			switch q.Name {
			case "servers":
				add(q, at.Key(q.Name, q.Name))
			case "inputs":
				im.readInputs(q.Value)
			}
		}
		return
	}
	add(configfile.Pair{Value: n}, at)
}

// children are the keys of a mapping, or of the mapping below some keys; none if it does not exist.
func (im *importer) children(n *yaml.Node, keys ...string) []configfile.Pair {
	for _, key := range keys {
		next := (*yaml.Node)(nil)
		for _, p := range im.children(n) {
			if p.Name == key {
				next = p.Value
			}
		}
		if n = next; n == nil {
			return nil
		}
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	return im.file.Pairs(n, configfile.Path{})
}

// readInputs records the inputs that an editor asks its user for.
func (im *importer) readInputs(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		return
	}
	for _, item := range n.Content {
		var id, text, initial string
		secret := false
		for _, p := range im.children(configfile.Resolve(item)) {
			switch p.Name {
			case "id":
				id = p.Value.Value
			case "description":
				text = p.Value.Value
			case "default":
				initial = p.Value.Value
			case "password":
				secret = p.Value.Value == "true"
			}
		}
		if initial != "" && !secret && !config.IsSecretName(id) && !config.HasToken(initial) && !strings.ContainsAny(initial, "@?") { // a URL may have a secret
			text = strings.TrimSuffix("the editor suggests "+configfile.Quote(initial)+"; "+text, "; ")
		}
		if id != "" {
			im.asked[id] = oneLine(text)
		}
	}
}

// group reads the servers of a mapping or list, and returns their number.
func (im *importer) group(g group) int {
	if g.node.Kind == yaml.SequenceNode {
		for i, item := range g.node.Content {
			item = configfile.Resolve(item)
			at := g.path.Item(i)
			key := ""
			for _, p := range im.children(item) {
				if p.Name == "name" {
					key = p.Value.Value
				}
			}
			if key == "" {
				key = fmt.Sprintf("server-%d", i+1)
				im.file.Warnf(item, at, "has no name; it is named %s here", key)
			}
			im.entry(key, item, item, at, g.folder)
		}
		return len(g.node.Content)
	}
	pairs := im.file.Pairs(g.node, g.path)
	for _, p := range pairs {
		if at := g.path.Key(p.Name, "*"); !g.goose {
			im.entry(p.Name, p.Key, p.Value, at, g.folder)
		} else if value := im.gooseEntry(p, at); value != nil {
			im.entry(p.Name, p.Key, value, at, g.folder)
			im.spelt = nil
		}
	}
	return len(pairs)
}

// nameServers gives each server a unique name. It removes a server that equals an earlier one.
func (im *importer) nameServers() {
	taken := make(map[string]*server)
	kept := im.servers[:0]
	for _, s := range im.servers {
		base := nameOf(s.key)
		if u := im.existing(s, base); u == base {
			im.leaveOut(s, "is left out: there is an upstream %s already", base)
			continue
		} else if u != "" {
			im.leaveOut(s, "is left out: the upstream %s is the same server", u)
			continue
		}
		if is := im.ownGateway(s); is != "" {
			im.leaveOut(s, "is left out: %s", is)
			continue
		}
		if first := taken[base]; first != nil && im.same(first, s) {
			im.leaveOut(s, "is the same as %s at %s:%v and is left out", configfile.Quote(first.key), first.file, first.at)
			continue
		}
		s.name = base
		for n := 2; taken[s.name] != nil || im.hasUpstream(s.name); n++ {
			end := fmt.Sprintf("-%d", n)
			s.name = strings.TrimRight(base[:min(len(base), config.MaxName-len(end))], "-") + end
		}
		if first := taken[base]; first != nil {
			other := "the server"
			if first.key != base {
				other = configfile.Quote(first.key)
			}
			im.warnServer(s, "is named %s here, since %s at %s:%v is named %s", s.name, other, first.file, first.at, base)
		} else if im.hasUpstream(base) {
			im.warnServer(s, "is named %s here, since the upstream %s %s", s.name, base, im.otherThan(s, base))
		} else if s.name != s.key {
			im.warnServer(s, "is named %s here", s.name)
		}
		taken[s.name] = s
		kept = append(kept, s)
	}
	im.servers = kept
}

// nameOf is the name of the upstream for the key of a server. Accents go, since a gateway.yaml without them is as good.
func nameOf(key string) string {
	plain := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(key))
	return config.NameOf(plain)
}

// same reports whether two servers of hosts are equal, including their secrets and settings.
func (im *importer) same(a, b *server) bool {
	settings := func(s *server) string {
		return fmt.Sprintf("%q %q %v %v %q %q", s.transport, s.timeout, s.disabled, s.none, im.expandAll(s.allow, im.actual), im.expandAll(s.deny, im.actual))
	}
	return settings(a) == settings(b) && im.connection(a).differs(im.connection(b)) == ""
}

func (im *importer) warnServer(s *server, format string, args ...any) {
	im.warnings = append(im.warnings, configfile.Warning{File: s.file, Line: s.at.Line, Col: s.at.Col, Path: s.path.Text, Msg: fmt.Sprintf(format, args...)})
}

// leaveOut is warnServer for a server that is left out. It removes the other warnings about the server.
func (im *importer) leaveOut(s *server, format string, args ...any) {
	im.warnings = slices.DeleteFunc(im.warnings, func(w configfile.Warning) bool {
		inside, found := strings.CutPrefix(w.Path, s.path.Text)
		return w.File == s.file && found && (inside == "" || inside[0] == '.' || inside[0] == '[')
	})
	im.warnServer(s, format, args...)
}

// removeInvalid removes servers that package config would refuse, with a warning: one of them would keep all others from
// being loaded. A variable whose value is not known may get any.
func (im *importer) removeInvalid() {
	const anything = "https://x.example"
	values := make(map[string]string) // of the host
	for _, p := range im.used() {
		if p.moved {
			values[p.name] = im.expand(p.text, func(*placeholder) string { return anything })
		}
	}
	set := func(name string) (string, bool) {
		if value, known := values[name]; known {
			return value, true
		}
		if im.Into != nil {
			if value, known := im.Into.Variable(name); known {
				return value, true
			}
		}
		return anything, true
	}
	read := config.WithReader(func(string) ([]byte, error) { return nil, nil })
	im.servers = slices.DeleteFunc(im.servers, func(s *server) bool {
		doc, err := encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("upstreams"), im.mapping(s)}})
		if err == nil {
			_, err = config.Parse("x.yaml", doc, set, read)
		}
		var errs configfile.Errors
		switch {
		case errors.As(err, &errs):
			im.leaveOut(s, "is left out: %s: %s", strings.TrimPrefix(errs[0].Path, "upstreams."+s.name+"."), errs[0].Msg)
		case err != nil:
			im.leaveOut(s, "is left out: %v", err)
		}
		return err != nil
	})
}

// workspaceOf is the folder of the project of a configuration: editors keep the file in a folder of their
// own inside it.
func workspaceOf(folder string) string {
	switch filepath.Base(folder) {
	case ".vscode", ".cursor", ".windsurf", ".zed", ".roo", ".continue", ".kiro", ".devcontainer":
		return filepath.Dir(folder)
	}
	return folder
}

// oneLine is text of a file on one line, shortened to 100 characters.
func oneLine(text string) string {
	const most = 100
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 }), " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
