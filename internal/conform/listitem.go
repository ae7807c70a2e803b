package conform

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// ListItem is what was found out about one item of an upstream's list.
type ListItem struct {
	// Item is what is to be published: the very slice that was checked unless
	// something was mended.
	Item wire.Raw
	// Native is the name or URI that the item has at its upstream, "" when it
	// has none that can be used.
	Native string
	// Unusable says why the item must be left out of the list, "" when it need
	// not: strict clients refuse a whole list for one such item.
	Unusable string
	Against  Fault // of what is unusable: the fault against the specification
	Findings []Finding
	More     int
	// Input and Output are a tool's schemas, nil where it has none, or none that
	// can be checked.
	Input, Output *Schema
}

// Lists checks the items of one upstream's lists.
type Lists struct {
	Mode     Mode
	Revision wire.Revision
	Schemas  *Schemas
	Budget   *Budget
	// Inputs says that the schemas of inputs are needed in every mode.
	Inputs bool
}

// Check holds one item, valid JSON under its native name, against what the
// specification demands. What has no name cannot be published in any mode.
func (l *Lists) Check(kind call.Kind, item wire.Raw) ListItem {
	out := ListItem{Item: item}
	root := wire.ValueOf(item)
	if root.Kind() != '{' {
		out.Unusable, out.Against = "the item is no object", WrongType
		return out
	}
	if l.Mode != Off {
		l.look(kind, &out)
		root = wire.ValueOf(out.Item)
	}
	id := namespace.NameMember(kind)
	name, twice := only(root, id)
	native, ok := name.Text()
	switch {
	case twice:
		out.Unusable, out.Against = fmt.Sprintf("the member %q stands twice", id), DuplicateMember
	case !ok:
		out.Unusable, out.Against = fmt.Sprintf("%q is missing or no string", id), Missing
	case native == "" && (kind == call.Tool || kind == call.Prompt):
		out.Unusable, out.Against = `"name" is empty`, InvalidName
	default:
		out.Native = native
		if l.Mode != Off {
			out.Unusable, out.Against = unusable(kind, root)
		}
	}
	if kind == call.Tool && out.Unusable == "" {
		l.schemas(&out, root)
	}
	if l.Mode == Strict && out.Unusable == "" {
		for _, f := range out.Findings {
			if !f.Fault.advice() || f.Fault == SchemaInvalid {
				out.Unusable, out.Against = f.String(), f.Fault
				break
			}
		}
	}
	return out
}

// look collects the faults of an item, and mends them if the mode says so.
func (l *Lists) look(kind call.Kind, out *ListItem) {
	w := walks.Get().(*walk)
	defer w.release()
	w.rev, w.mend = l.Revision, l.Mode == Repair
	fix := w.object(wire.ValueOf(out.Item), itemRules[kind])
	if fix != nil {
		out.Item = fix
	}
	out.Findings, out.More, w.findings = w.findings, w.more, nil
}

// schemas compiles the schemas of a tool, within bounds. An outputSchema that is
// none is taken out of a tool that is repaired: clients refuse the whole list for
// it.
func (l *Lists) schemas(out *ListItem, tool wire.Value) {
	if l.Mode == Off {
		if schema := tool.Get("inputSchema"); l.Inputs && schema.Kind() == '{' {
			out.Input = l.Schemas.get(schema.Raw())
		}
		return
	}
	out.Input = l.schema(out, tool, "inputSchema", false)
	out.Output = l.schema(out, tool, "outputSchema", true)
	if l.Mode == Repair && out.Output == nil && brokenOutput(out.Findings) {
		e := wire.NewEdit(out.Item)
		e.Remove(e.Root(), "outputSchema")
		out.Item = e.Bytes()
	}
}

func brokenOutput(findings []Finding) bool {
	for _, f := range findings {
		if f.Fault == SchemaInvalid && f.Path == "$.outputSchema" {
			return true
		}
	}
	return false
}

// schema returns a schema of a tool if it can be held against values.
func (l *Lists) schema(out *ListItem, tool wire.Value, name string, mended bool) *Schema {
	at := tool.Get(name)
	if at.Kind() != '{' {
		return nil
	}
	schema := l.Schemas.get(at.Raw())
	w := walk{rev: l.Revision, mend: l.Mode == Repair, findings: out.Findings}
	defer func() { out.Findings = w.findings }()
	if l.Budget != nil && !l.Budget.take(schema) {
		w.foundIn(name, SchemaUnchecked, secTool, false, "is not checked: the schemas of this upstream are too many")
		return nil
	}
	switch err := schema.Fault(); {
	case err == nil:
		return schema
	case Unchecked(err):
		w.foundIn(name, SchemaUnchecked, secTool, false, err.Error())
	default:
		w.foundIn(name, SchemaInvalid, secTool, mended, "is no JSON Schema: "+err.Error())
	}
	return nil
}

// only returns a member, and whether there are several of its name.
func only(obj wire.Value, name string) (v wire.Value, twice bool) {
	for m := range obj.Members() {
		if m.Is(name) {
			twice = v.Exists()
			v = m.Value
		}
	}
	return v, twice
}

// unusable says why strict clients refuse a list with this item, "" when they do
// not.
func unusable(kind call.Kind, item wire.Value) (string, Fault) {
	name, twice := only(item, "name")
	if twice {
		return `the member "name" stands twice`, DuplicateMember
	}
	if _, ok := name.Text(); !ok {
		return `"name" is missing or no string`, Missing
	}
	switch kind {
	case call.Tool:
		schema, twice := only(item, "inputSchema")
		switch {
		case twice:
			return `the member "inputSchema" stands twice`, DuplicateMember
		case !schema.Get("type").IsString("object"):
			if !schema.Exists() {
				return `"inputSchema" must be an object whose "type" is "object"`, Missing
			}
			return `"inputSchema" must be an object whose "type" is "object"`, InvalidValue
		}
	case call.Template:
		return TemplateFault(item.Get("uriTemplate").Str()), InvalidURI
	}
	return "", 0
}

// Bounds on templates, which come from upstreams and are compiled.
const (
	maxTemplate     = 2048 // bytes
	maxTemplateVars = 64
)

// TemplateFault says why a text is no template of URIs, "" when it is one.
func TemplateFault(text string) string {
	if len(text) > maxTemplate || TemplateVars(text) > maxTemplateVars {
		return fmt.Sprintf(`"uriTemplate" is larger than %d bytes or %d variables`, maxTemplate, maxTemplateVars)
	}
	if _, err := uritemplate.New(text); err != nil {
		return fmt.Sprintf(`"uriTemplate" is no template of RFC 6570: %v`, err)
	}
	return ""
}

// TemplateVars returns how many variables a template can have.
func TemplateVars(text string) int { return strings.Count(text, "{") + strings.Count(text, ",") }

// What every item has.
func itemMembers(section string) []rule {
	return []rule{
		{name: "title", section: section, check: aString(section)},
		{name: "description", section: section, check: aString(section)},
		{name: "icons", section: secIcons, check: anIcons},
		metaRule,
	}
}

var itemRules [call.Kinds][]rule

var resourceMembers, toolHints []rule

func init() {
	hint := func(name string) rule { return rule{name: name, section: secTool, check: aBool(secTool)} }
	stray := func(name string) rule { return rule{name: name, section: secTool, into: "annotations"} }
	toolHints = []rule{
		{name: "title", section: secTool, check: aString(secTool)},
		hint("readOnlyHint"), hint("destructiveHint"), hint("idempotentHint"), hint("openWorldHint"),
	}
	itemRules[call.Tool] = append([]rule{
		{name: "name", need: true, section: secTool, check: aToolName},
		{
			name: "inputSchema", need: true, section: secTool, check: inputSchema, other: []string{"input_schema", "parameters"},
			fill: func(*walk, wire.Value) (wire.Raw, string) {
				return wire.Raw(`{"type":"object"}`), "is missing; for a tool without parameters it must be {\"type\":\"object\"}"
			},
		},
		{name: "outputSchema", section: secOutput, check: outputSchema, other: []string{"output_schema"}},
		{name: "annotations", section: secTool, check: func(w *walk, v wire.Value) wire.Raw {
			if v.Kind() != '{' {
				w.found(WrongType, secTool, true, "must be an object, not "+kindOf(v))
				return gone
			}
			return w.object(v, toolHints)
		}},
		{name: "execution", section: secTool, check: func(w *walk, v wire.Value) wire.Raw {
			if v.Kind() != '{' {
				w.found(WrongType, secTool, true, "must be an object, not "+kindOf(v))
				return gone
			}
			return w.object(v, []rule{{name: "taskSupport", section: secTool, check: oneOf(secTool, "required", "optional", "forbidden")}})
		}},
		stray("readOnlyHint"), stray("destructiveHint"), stray("idempotentHint"), stray("openWorldHint"),
	}, itemMembers(secTool)...)
	name := func(section string) rule {
		return rule{name: "name", need: true, section: section, check: aString(section), fill: nameOfURI}
	}
	mime := rule{name: "mimeType", section: secResource, check: aMIMEType, other: []string{"mime_type", "mimetype"}}
	resourceMembers = append([]rule{
		{name: "uri", need: true, section: secResource, check: aURI, other: []string{"url"}, public: true},
		name(secResource), mime, annotationsRule,
		{name: "size", section: secResource, check: aCount(secResource)},
	}, itemMembers(secResource)[:3]...)
	linkRules = blockRules(slices.Clone(resourceMembers)...)
	itemRules[call.Resource] = append(slices.Clone(resourceMembers), metaRule)
	itemRules[call.Template] = append([]rule{
		{name: "uriTemplate", need: true, section: secTemplate, check: aString(secTemplate), other: []string{"uri_template"}},
		name(secTemplate), mime, annotationsRule,
	}, itemMembers(secTemplate)...)
	itemRules[call.Prompt] = append([]rule{
		{name: "name", need: true, section: secPrompt, check: aString(secPrompt)},
		{name: "arguments", section: secPrompt, check: promptArguments},
	}, itemMembers(secPrompt)...)
}

// nameOfURI names a resource that has no name: by its title, else by its URI.
func nameOfURI(_ *walk, obj wire.Value) (wire.Raw, string) {
	if title := obj.Get("title"); title.Kind() == '"' && !title.IsString("") {
		return title.Raw(), "is missing; title does not stand for it"
	}
	for _, member := range []string{"uri", "uriTemplate", "url"} {
		if uri := obj.Get(member).Str(); uri != "" {
			if base := path.Base(strings.TrimRight(uri, "/")); base != "." && base != "/" {
				return wire.String(base), ""
			}
			return wire.String(uri), ""
		}
	}
	return nil, ""
}

// maxToolName is how long the name of a tool may be (2025-11-25, server/tools,
// "Tool Names").
const maxToolName = 128

func aToolName(w *walk, v wire.Value) wire.Raw {
	name, ok := v.Text()
	if !ok {
		return w.text(v, secTool)
	}
	if w.rev.AtLeast(wire.Rev20251125) && !isToolName(name) {
		w.found(InvalidName, secToolNames, false, fmt.Sprintf("%q must be 1 to %d of A-Z a-z 0-9 _ - .", clip(name, 64), maxToolName))
	}
	return nil
}

func isToolName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !(isLetter(c) || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return name != "" && len(name) <= maxToolName
}

// promptArguments checks the arguments that a prompt takes. An object of them by
// name is taken for the array that it means.
func promptArguments(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '[':
		return w.array(v, promptArgument)
	case '{':
		w.found(WrongType, secPrompt, true, "must be an array of objects with name, not an object")
		out := wire.Raw{'['}
		for m := range v.Members() {
			one := wire.Raw(`{}`)
			if m.Value.Kind() == '{' {
				one = m.Value.Raw()
			}
			one = wire.SetMember(one, "name", m.Key.Raw())
			if fix := w.object(wire.ValueOf(one), argumentRules); fix != nil {
				one = fix
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, one...)
		}
		return append(out, ']')
	default:
		w.found(WrongType, secPrompt, true, "must be an array of objects with name, not "+kindOf(v))
		return gone
	}
}

var argumentRules = []rule{
	{name: "name", need: true, section: secPrompt, check: aString(secPrompt)},
	{name: "title", section: secPrompt, check: aString(secPrompt)},
	{name: "description", section: secPrompt, check: aString(secPrompt)},
	{name: "required", section: secPrompt, check: aBool(secPrompt)},
}

func promptArgument(w *walk, v wire.Value) wire.Raw {
	if v.Kind() == '"' {
		w.found(WrongType, secPrompt, true, "must be an object with name, not a string")
		return wire.SetMember(wire.Raw(`{}`), "name", v.Raw())
	}
	if v.Kind() != '{' {
		w.found(WrongType, secPrompt, true, "must be an object with name, not "+kindOf(v))
		return gone
	}
	stuck := w.stuck
	fix := w.object(v, argumentRules)
	if w.stuck > stuck {
		w.stuck = stuck
		w.settled()
		return gone
	}
	return fix
}
