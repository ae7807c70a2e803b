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

// CheckedItem is the outcome of the check of one item of an upstream's list.
type CheckedItem struct {
	// Item is the item to publish: the very slice that was checked, unless it was repaired
	// or sanitized.
	Item wire.Raw
	// Native is the name or URI of the item at its upstream, "" if it has none.
	Native string
	// Unusable is the reason to leave the item out of the list, "" for none: strict
	// clients refuse a whole list for one such item.
	Unusable     string
	UnusableKind Kind // if Unusable is not ""
	Violations   []Violation
	More         int
	// Removed counts what was removed from its text.
	Removed sanitize.Counts
	// Input and Output are the schemas of a tool, nil if they are absent, invalid or too
	// costly to check.
	Input, Output *toolschema.Schema

	cost       int  // the cost of compiling its schemas
	overBudget bool // a schema was not compiled, because the budget was exhausted
}

// ItemChecker checks the items of one upstream's lists.
type ItemChecker struct {
	Mode     Mode
	Revision wire.Revision
	Cache    *Cache
	Budget   *toolschema.Budget
	// Inputs says that input schemas are needed in every mode.
	Inputs bool
	// Sanitize says what is removed from the text of usable items.
	Sanitize sanitize.Classes
}

// Check checks one item, valid JSON with native names, repairs it as the mode says, and
// sanitizes it. An item without a name is unusable in every mode. The caller must not change
// the violations, which a [Cache] shares.
func (l *ItemChecker) Check(kind call.Kind, item wire.Raw) CheckedItem {
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

func (l *ItemChecker) check(kind call.Kind, item wire.Raw) CheckedItem {
	out := CheckedItem{Item: item}
	root := wire.ValueOf(item)
	if root.Kind() != '{' {
		out.Unusable, out.UnusableKind = "the item is not an object", WrongType
		return out
	}
	if l.Mode != Off {
		l.checkMembers(kind, &out)
		root = wire.ValueOf(out.Item)
	}
	id := namespace.NameMember(kind)
	name, twice := singleMember(root, id)
	native, ok := name.Text()
	switch {
	case twice:
		out.Unusable, out.UnusableKind = fmt.Sprintf("the member %q occurs twice", id), DuplicateMember
	case !ok:
		out.Unusable, out.UnusableKind = fmt.Sprintf("%q is missing or not a string", id), Missing
	case native == "" && (kind == call.Tool || kind == call.Prompt):
		out.Unusable, out.UnusableKind = `"name" is empty`, InvalidName
	default:
		out.Native = native
		if l.Mode != Off {
			out.Unusable, out.UnusableKind = unusable(kind, root)
		}
	}
	if kind == call.Tool && out.Unusable == "" {
		l.schemas(&out, root)
	}
	if l.Mode == Warn || l.Mode == Repair {
		out.markUnusable()
	}
	if l.Mode == Strict && out.Unusable == "" {
		for _, f := range out.Violations {
			if !f.isAdvice() || f.Kind == SchemaInvalid {
				out.Unusable, out.UnusableKind = f.String(), f.Kind
				break
			}
		}
	}
	if out.Unusable == "" {
		out.Item, out.Removed = l.Sanitize.Item(kind, out.Item)
	}
	return out
}

// markUnusable marks an item with a violation, not repaired, for which strict clients refuse
// a whole list, and with it the items of all other upstreams.
func (out *CheckedItem) markUnusable() {
	if out.Unusable != "" {
		return
	}
	for _, f := range out.Violations {
		if !f.Repaired && f.breaksList() {
			out.Unusable, out.UnusableKind = f.String()+"; strict clients refuse a whole list for it, and conformance: repair may fix it", f.Kind
			return
		}
	}
	if out.More > 0 && !out.Violations[0].Repaired {
		out.Unusable, out.UnusableKind = "it has too many violations to tell whether strict clients would refuse a whole list for them", out.Violations[0].Kind
	}
}

// breaksList reports whether strict clients, which check the type of every member, refuse a
// list for this violation of one of its items. An outputSchema that is not one of objects
// does not break a list: package downlevel removes it for clients that would refuse it.
func (v Violation) breaksList() bool {
	switch v.Kind {
	case WrongType, NullMember, InvalidValue:
		switch v.Path {
		case "$.outputSchema", "$.outputSchema.type":
			return false
		case "$.size": // clients accept a negative number
			return v.Kind != InvalidValue
		}
		return true
	case Missing, InvalidAnnotation, InvalidIcon:
		return true
	case SchemaInvalid: // clients compile it, and do not follow references either
		return v.Path == "$.outputSchema"
	case InvalidMeta:
		return v.Path == "$._meta"
	}
	return false
}

// checkMembers collects the violations of an item, and repairs them if the mode says so.
func (l *ItemChecker) checkMembers(kind call.Kind, out *CheckedItem) {
	w := walks.Get().(*walk)
	defer w.release()
	w.rev, w.repair = l.Revision, l.Mode == Repair
	fix := w.checkObject(wire.ValueOf(out.Item), itemRules[kind])
	if fix != nil {
		out.Item = fix
	}
	out.Violations, out.More, w.violations = w.violations, w.more, nil
}

// schemas compiles the schemas of a tool, within bounds. Repair removes an invalid
// outputSchema, for which clients refuse the whole list.
func (l *ItemChecker) schemas(out *CheckedItem, tool wire.Value) {
	if l.Mode == Off {
		if schema := tool.Get("inputSchema"); l.Inputs && schema.Kind() == '{' {
			out.Input = l.Cache.schema(schema.Raw())
		}
		return
	}
	out.Input = l.schema(out, tool, "inputSchema", false)
	out.Output = l.schema(out, tool, "outputSchema", true)
	if l.Mode == Repair && out.Output == nil && hasInvalidOutput(out.Violations) {
		e := wire.NewEdit(out.Item)
		e.Remove(e.Root(), "outputSchema")
		out.Item = e.Bytes()
	}
}

func hasInvalidOutput(findings []Violation) bool {
	for _, f := range findings {
		if f.Kind == SchemaInvalid && f.Path == "$.outputSchema" {
			return true
		}
	}
	return false
}

// schema returns a schema of a tool, nil if values cannot be checked against it.
func (l *ItemChecker) schema(out *CheckedItem, tool wire.Value, name string, repairable bool) *toolschema.Schema {
	at := tool.Get(name)
	if at.Kind() != '{' {
		return nil
	}
	schema := l.Cache.schema(at.Raw())
	w := walk{rev: l.Revision, repair: l.Mode == Repair, violations: out.Violations}
	defer func() { out.Violations = w.violations }()
	cost, err := l.Budget.Compile(schema)
	out.cost += cost
	switch {
	case err == nil:
		return schema
	case errors.Is(err, toolschema.ErrBudget):
		out.overBudget = true
		w.reportMember(name, SchemaUnchecked, secTool, false, "is not checked: "+err.Error())
	case toolschema.IsUnchecked(err):
		w.reportMember(name, SchemaUnchecked, secTool, false, err.Error())
	default:
		w.reportMember(name, SchemaInvalid, secTool, repairable, "is not a valid JSON Schema: "+err.Error())
	}
	return nil
}

// singleMember returns a member, and reports whether it occurs more than once.
func singleMember(obj wire.Value, name string) (v wire.Value, twice bool) {
	for m := range obj.Members() {
		if m.Is(name) {
			twice = v.Exists()
			v = m.Value
		}
	}
	return v, twice
}

// unusable returns the reason for which strict clients refuse a list with this item, "" if
// they do not.
func unusable(kind call.Kind, item wire.Value) (string, Kind) {
	name, twice := singleMember(item, "name")
	if twice {
		return `the member "name" occurs twice`, DuplicateMember
	}
	if _, ok := name.Text(); !ok {
		return `"name" is missing or not a string`, Missing
	}
	switch kind {
	case call.Tool:
		schema, twice := singleMember(item, "inputSchema")
		switch {
		case twice:
			return `the member "inputSchema" occurs twice`, DuplicateMember
		case !schema.Get("type").IsString("object"):
			if !schema.Exists() {
				return `"inputSchema" must be an object whose "type" is "object"`, Missing
			}
			return `"inputSchema" must be an object whose "type" is "object"`, InvalidValue
		}
	case call.Template:
		return TemplateError(item.Get("uriTemplate").Str()), InvalidURI
	}
	return "", 0
}

// Bounds on URI templates, which come from upstreams and are compiled.
const (
	maxTemplate     = 2048 // bytes
	maxTemplateVars = 64
)

// TemplateError returns the reason why a text is not a URI template, "" if it is one.
func TemplateError(text string) string {
	if len(text) > maxTemplate || TemplateVars(text) > maxTemplateVars {
		return fmt.Sprintf(`"uriTemplate" is larger than %d bytes or %d variables`, maxTemplate, maxTemplateVars)
	}
	if _, err := uritemplate.New(text); err != nil {
		return fmt.Sprintf(`"uriTemplate" is not a URI template (RFC 6570): %v`, err)
	}
	return ""
}

// TemplateVars returns the largest number of variables that a template can have.
func TemplateVars(text string) int { return strings.Count(text, "{") + strings.Count(text, ",") }
