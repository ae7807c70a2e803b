package hostimport

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
)

// placeholder is a reference in a text. Texts contain its number between two NUL characters, which no
// value of a host contains, so that a text stays a plain string until the names of variables are known.
type placeholder struct {
	ref   string // the inside of ${…}, "" for a variable without a name yet
	name  string // of the variable; set by nameVariables
	base  string // the name without a number
	value string // the literal that was moved
	text  string // the same with the marks of the references in it
	moved bool
	note  string
	uses  []string
	plain bool // the host's file has ${NAME}, without env:, or $NAME
	bare  bool // the host's file has $NAME
	index int  // among the importer's placeholders, from 1; 0 before the first mark
}

// original is the text in the host's file.
func (s *placeholder) original() string {
	if s.moved {
		return s.value
	}
	if s.bare {
		return "$" + s.ref
	}
	return "${" + cmp.Or(s.ref, s.base) + "}"
}

// final is the text in gateway.yaml.
func (s *placeholder) final() string { return "${" + cmp.Or(s.ref, s.name) + "}" }

var marks = regexp.MustCompile("\x00([0-9]+)\x00")

// mark is the form of a placeholder in a text.
func (im *importer) mark(s *placeholder) string {
	if s.index == 0 {
		im.placeholders = append(im.placeholders, s)
		s.index = len(im.placeholders)
	}
	return "\x00" + strconv.Itoa(s.index) + "\x00"
}

// unmarked is a text without its placeholders.
func unmarked(text string) string { return marks.ReplaceAllString(text, "") }

// expand replaces each placeholder of a text.
func (im *importer) expand(text string, show func(*placeholder) string) string {
	return marks.ReplaceAllStringFunc(text, func(m string) string {
		i, _ := strconv.Atoi(strings.Trim(m, "\x00"))
		return show(im.placeholders[i-1])
	})
}

func (im *importer) expandAll(texts []string, show func(*placeholder) string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = im.expand(t, show)
	}
	return out
}

// render is a text for gateway.yaml: literal ${ is escaped.
func (im *importer) render(text string) string {
	return im.expand(strings.ReplaceAll(text, "${", "$${"), (*placeholder).final)
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// hostRef matches the references of hosts: ${…}, {env:…}, {file:…} and ${{ secrets.… }}.
var hostRef = regexp.MustCompile(hostRefs)

const hostRefs = `\$\{\{\s*(?:secrets|inputs)\.([A-Za-z0-9_.-]+)\s*\}\}|\$\{([^{}]*)\}|\{((?:env|file):[^{}]*)\}`

// geminiRef matches the references of Gemini CLI, which expands $NAME in every string of its settings.
var geminiRef = regexp.MustCompile(hostRefs + `|\$([A-Za-z_][A-Za-z0-9_]*)`)

// refs replaces the references in a value of a host by placeholders. Gemini CLI keeps a reference to a variable that is
// not set as text, so a $ in a password may look like one. Only in a value that consists of references alone is it a
// variable that the user has yet to set: only that upstream waits for it.
func (im *importer) refs(value string, at configfile.Path) string {
	if im.Escapes {
		if before, after, found := strings.Cut(value, "$${"); found {
			return im.refs(before, at) + "${" + im.refs(after, at)
		}
	}
	var b strings.Builder
	end := 0
	known := hostRef
	var kept []string
	keep := false // whether references to variables that are not set stay text
	if im.host.isGemini() {
		known = geminiRef
		around := known.ReplaceAllString(value[len(config.AuthScheme(value)):], "")
		keep = !separators.MatchString(around)
	}
	for _, m := range known.FindAllStringSubmatchIndex(value, -1) {
		var inside string
		bare := len(m) > 8 && m[8] >= 0
		switch {
		case bare:
			inside = value[m[8]:m[9]]
		case m[2] >= 0:
			inside = "env:" + config.InputVariable(value[m[2]:m[3]])
		case m[4] >= 0:
			inside = value[m[4]:m[5]]
		default:
			inside = value[m[6]:m[7]]
		}
		b.WriteString(value[end:m[0]])
		var put string
		ok := true
		switch {
		case keep && variable.MatchString(inside) && !im.isSet(inside):
			ok = false
			if shown := value[m[0]:m[1]]; !slices.Contains(kept, shown) { // the rest of the value may be secret
				kept = append(kept, shown)
				im.warn(at, "%s is kept as text, because the variable %s is not set; Gemini CLI does the same", configfile.Quote(shown), inside)
			}
		case bare:
			put = im.mark(&placeholder{ref: inside, plain: true, bare: true, uses: []string{im.use(at)}})
		default:
			put, ok = im.ref(inside, at)
		}
		switch {
		case !ok:
			put = value[m[0]:m[1]]
		case strings.HasPrefix(put, "\x00") && strings.HasSuffix(b.String(), "$"):
			// $ and a reference side by side would read as an escape.
			dollar := &placeholder{ref: "DOLLAR:-$"}
			before := strings.TrimSuffix(b.String(), "$")
			b.Reset()
			b.WriteString(before + im.mark(dollar))
		}
		b.WriteString(put)
		end = m[1]
	}
	b.WriteString(value[end:])
	return b.String()
}

func (im *importer) isSet(name string) bool {
	_, set := im.lookup(name)
	return set
}

// ref is the replacement of a reference of a host, given its inside; false if it is not a reference.
func (im *importer) ref(inside string, at configfile.Path) (string, bool) {
	kind, arg, _ := strings.Cut(inside, ":")
	switch kind {
	case "workspaceFolder", "workspaceRoot":
		if !strings.HasPrefix(arg, "-") {
			return im.workspace(inside, at), true
		}
	case "workspaceFolderBasename":
		if im.host.isUserOfVSCode() {
			return im.workspace(inside, at), true
		}
		return filepath.Base(im.workspace(inside, at)), true
	case "userHome":
		return im.refTo("HOME", at), true
	case "pathSeparator", "/":
		return "/", true
	case "input":
		return im.input(arg, at), true
	case "file":
		if arg != "" && !strings.ContainsAny(arg, "$") {
			if strings.HasPrefix(arg, "~") {
				s := im.variable(variableName(im.server.key, filepath.Base(arg)), "", at)
				s.note = "the content of the file " + oneLine(arg)
				return im.mark(s), true
			}
			return im.mark(&placeholder{ref: "file:" + inFolder(im.host.Folder, arg)}), true
		}
	case "command", "config", "execPath", "extensionInstallFolder", "selectedText", "relativeFile", "fileWorkspaceFolder":
		s := im.variable(config.InputVariable(inside), "", at)
		s.note = "the value that the editor inserts for ${" + oneLine(inside) + "}"
		im.warn(at, "refers to %s, which only the editor knows", configfile.Quote("${"+inside+"}"))
		return im.mark(s), true
	}
	name, fallback, has := strings.Cut(strings.TrimPrefix(inside, "env:"), ":-")
	switch {
	case variable.MatchString(name) && has && !config.IsSecretName(name):
		return im.refTo(name+":-"+fallback, at), true
	case variable.MatchString(name) && has:
		s := &placeholder{ref: name, note: withoutDefault, uses: []string{im.use(at)}}
		return im.mark(s), true
	case variable.MatchString(name):
		return im.mark(&placeholder{ref: name, plain: kind != "env", uses: []string{im.use(at)}}), true
	case kind == "env" && !has:
		s := im.variable(config.InputVariable(name), "", at)
		s.note = "the environment variable " + oneLine(name)
		return im.mark(s), true
	}
	return "", false
}

// workspace is the folder that replaces a reference to the folder that is open in an editor. It is a variable to set if the
// file belongs to no project. A warning says so once for each server.
func (im *importer) workspace(inside string, at configfile.Path) string {
	if im.host.isUserOfVSCode() {
		if !im.server.fixed {
			im.server.fixed = true
			im.warn(at, "%s becomes a variable to set: this file belongs to no folder, so set it to the one that the server may use", configfile.Quote("${"+inside+"}"))
		}
		base, note := "WORKSPACE_FOLDER", "the folder that the server may use"
		if inside == "workspaceFolderBasename" {
			base, note = base+"_BASENAME", "the name of "+note
		}
		return im.shared("\x00"+base, base, note, at)
	}
	if !im.server.fixed {
		im.server.fixed = true
		im.warn(at, "%s is always the folder %s here, whichever folder is open in the editor", configfile.Quote("${"+inside+"}"), im.server.folder)
	}
	return im.server.folder
}

// refTo marks a reference to an existing variable.
func (im *importer) refTo(ref string, at configfile.Path) string {
	return im.mark(&placeholder{ref: ref, uses: []string{im.use(at)}})
}

// forProgram turns ${NAME} in an argument back into text if the server's own env has a literal
// NAME. No host expands such a reference, but the program does, as mcp-remote does in headers.
func (im *importer) forProgram(arg string) string {
	return marks.ReplaceAllStringFunc(arg, func(m string) string {
		i, _ := strconv.Atoi(strings.Trim(m, "\x00"))
		s := im.placeholders[i-1]
		if s.plain && slices.ContainsFunc(im.server.env, func(e entry) bool { return e.name == s.ref && im.isLiteral(e.value) }) {
			return s.original()
		}
		return m
	})
}

// isLiteral reports whether the host's file has a text without references.
func (im *importer) isLiteral(text string) bool {
	literal := true
	im.expand(text, func(s *placeholder) string {
		literal = literal && s.moved && !marks.MatchString(s.text)
		return ""
	})
	return literal
}

// inFolder is a path relative to a folder, unless it is absolute.
func inFolder(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// input marks an input that an editor asks its user for. The same id is the same variable.
func (im *importer) input(id string, at configfile.Path) string {
	return im.shared(id, config.InputVariable(id), im.asked[id], at)
}

// shared marks the variable that all references with an id have in common.
func (im *importer) shared(id, base, note string, at configfile.Path) string {
	s := im.inputs[id]
	if s == nil {
		s = &placeholder{base: base, note: note}
		im.inputs[id] = s
	}
	if len(s.uses) < maxUses {
		s.uses = append(s.uses, im.use(at))
	}
	return im.mark(s)
}

// maxUses bounds the positions of a variable that are reported.
const maxUses = 3

// variable makes a variable for the value at a position.
func (im *importer) variable(base, value string, at configfile.Path) *placeholder {
	return &placeholder{base: base, value: value, moved: value != "", uses: []string{im.use(at)}}
}

// use describes a position: file:line:col and the key.
func (im *importer) use(at configfile.Path) string {
	return fmt.Sprintf("%s:%v: %s", im.host.Name, im.here, at.Text)
}

// move replaces a literal by a variable.
func (im *importer) move(key, value string, at configfile.Path) string {
	s := im.variable(variableName(im.server.key, key), im.expand(value, (*placeholder).original), at)
	s.text = value
	return im.mark(s)
}

// variableName is the name of the variable for a key of an upstream.
func variableName(upstream, key string) string {
	up, name := config.InputVariable(nameOf(upstream)), strings.Trim(config.InputVariable(key), "_")
	if name == "" {
		name = "VALUE"
	}
	if strings.HasPrefix(name, up+"_") {
		return name
	}
	return up + "_" + name
}

// nameVariables gives each variable a unique name.
func (im *importer) nameVariables() {
	taken := make(map[string]bool)
	used := im.used()
	isTaken := func(s *placeholder) bool {
		return taken[s.name] || im.Taken != nil && im.Taken(s.name, s.moved, im.literalLine(s))
	}
	for _, s := range used {
		if name, _, _ := strings.Cut(s.ref, ":-"); s.ref != "" {
			taken[name] = true
		}
	}
	for _, s := range used {
		if s.ref != "" {
			continue
		}
		s.name = s.base
		for n := 2; isTaken(s); n++ {
			s.name = fmt.Sprintf("%s_%d", s.base, n)
		}
		taken[s.name] = true
	}
}

// used are the placeholders that the servers refer to, in the order of the file. Those in a value that was moved are among
// them if the env_file of the configuration gets the value, which then refers to them there.
func (im *importer) used() []*placeholder {
	var used []*placeholder
	seen := make(map[*placeholder]bool)
	var note func(s *placeholder) string
	note = func(s *placeholder) string {
		if seen[s] {
			return ""
		}
		seen[s] = true
		used = append(used, s)
		if im.EnvFile != "" || im.Into != nil {
			im.expand(s.text, note)
		}
		return ""
	}
	for _, s := range im.servers {
		texts := append([]string{s.command, s.cwd, s.envFile, s.url}, s.args...)
		for _, p := range append(slices.Clone(s.env), s.headers...) {
			texts = append(texts, p.value)
		}
		im.expandAll(texts, note)
	}
	return used
}

// variables are the variables to set, sorted by name. A variable with a default need not be set.
func (im *importer) variables() []Variable {
	byName := make(map[string]*Variable)
	for _, s := range im.used() {
		name := cmp.Or(s.ref, s.name)
		if strings.Contains(name, ":") || name == "HOME" {
			continue
		}
		v := byName[name]
		if v == nil {
			v = &Variable{Name: name, Note: s.note, Moved: s.moved}
			byName[name] = v
		}
		for _, use := range s.uses {
			if len(v.Uses) < maxUses && !slices.Contains(v.Uses, use) {
				v.Uses = append(v.Uses, use)
			}
		}
	}
	var out []Variable
	for _, v := range byName {
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
