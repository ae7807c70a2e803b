package conform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/toolschema"
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
	// Taken is what was taken out of its text.
	Removed sanitize.Counts
	// Input and Output are a tool's schemas, nil where it has none, or none that
	// can be checked.
	Input, Output *toolschema.Schema

	cost       int  // of compiling its schemas
	overBudget bool // a schema was not compiled, because the budget was exhausted
}

// Lists checks the items of one upstream's lists.
type Lists struct {
	Mode     Mode
	Revision wire.Revision
	Cache    *Cache
	Budget   *toolschema.Budget
	// Inputs says that the schemas of inputs are needed in every mode.
	Inputs bool
	// Sanitize says what is taken out of the text of items that can be used.
	Sanitize sanitize.Classes
}

// Check holds one item, valid JSON under its native name, against what the
// specification demands, and cleans it. What has no name cannot be published in any
// mode. Nobody may change the findings.
func (l *Lists) Check(kind call.Kind, item wire.Raw) ListItem {
	if l.Cache == nil {
		return l.check(kind, item)
	}
	key := l.key(kind, item)
	if out, ok := l.Cache.item(key, item, l.Budget); ok {
		return out
	}
	out := l.check(kind, item)
	l.Cache.keep(key, item, out)
	return out
}

func (l *Lists) check(kind call.Kind, item wire.Raw) ListItem {
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
	if l.Mode == Warn || l.Mode == Repair {
		out.breakLists()
	}
	if l.Mode == Strict && out.Unusable == "" {
		for _, f := range out.Findings {
			if !f.advice() || f.Fault == SchemaInvalid {
				out.Unusable, out.Against = f.String(), f.Fault
				break
			}
		}
	}
	if out.Unusable == "" {
		out.Item, out.Removed = l.Sanitize.Item(kind, out.Item)
	}
	return out
}

// breakLists notes the first fault that is left in an item for which strict clients
// refuse a whole list, and with it what all other upstreams have.
func (out *ListItem) breakLists() {
	if out.Unusable != "" {
		return
	}
	for _, f := range out.Findings {
		if !f.Mended && f.breaksList() {
			out.Unusable, out.Against = f.String()+"; strict clients refuse a whole list for it, and conformance: repair may mend it", f.Fault
			return
		}
	}
	if left := out.More > 0 && !out.Findings[0].Mended; left {
		out.Unusable, out.Against = "it has too many faults to tell whether strict clients would refuse a whole list for them", out.Findings[0].Fault
	}
}

// breaksList reports whether strict clients, which hold every member against its
// type, refuse a list for a fault of one of its items. What older clients do not get
// to see of an outputSchema is none (see [ItemDownTo]).
func (f Finding) breaksList() bool {
	switch f.Fault {
	case WrongType, NullMember, InvalidValue:
		switch f.Path {
		case "$.outputSchema", "$.outputSchema.type":
			return false
		case "$.size": // one that is negative is a number all the same
			return f.Fault != InvalidValue
		}
		return true
	case Missing, InvalidAnnotation, InvalidIcon:
		return true
	case SchemaInvalid: // they compile it, and follow no reference either
		return f.Path == "$.outputSchema"
	case InvalidMeta:
		return f.Path == "$._meta"
	}
	return false
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
			out.Input = l.Cache.schema(schema.Raw())
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
func (l *Lists) schema(out *ListItem, tool wire.Value, name string, mended bool) *toolschema.Schema {
	at := tool.Get(name)
	if at.Kind() != '{' {
		return nil
	}
	schema := l.Cache.schema(at.Raw())
	w := walk{rev: l.Revision, mend: l.Mode == Repair, findings: out.Findings}
	defer func() { out.Findings = w.findings }()
	cost, err := l.Budget.Compile(schema)
	out.cost += cost
	switch {
	case err == nil:
		return schema
	case errors.Is(err, toolschema.ErrBudget):
		out.overBudget = true
		w.foundIn(name, SchemaUnchecked, secTool, false, "is not checked: "+err.Error())
	case toolschema.IsUnchecked(err):
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
