package conform

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// itemMembers returns the rules for members of every item.
func itemMembers(section string) []rule {
	return []rule{
		{name: "title", section: section, check: checkString(section)},
		{name: "description", section: section, check: checkString(section)},
		{name: "icons", section: secIcons, check: checkIcons},
		metaRule,
	}
}

var itemRules [call.Kinds][]rule

var resourceMembers, toolHints []rule

func init() {
	hint := func(name string) rule { return rule{name: name, section: secTool, check: checkBool(secTool)} }
	stray := func(name string) rule { return rule{name: name, section: secTool, parent: "annotations"} }
	toolHints = []rule{
		{name: "title", section: secTool, check: checkString(secTool)},
		hint("readOnlyHint"), hint("destructiveHint"), hint("idempotentHint"), hint("openWorldHint"),
	}
	itemRules[call.Tool] = append([]rule{
		{name: "name", required: true, section: secTool, check: checkToolName},
		{
			name: "inputSchema", required: true, section: secTool, check: checkInputSchema, aliases: []string{"input_schema", "parameters"},
			defaultValue: func(*walk, wire.Value) (wire.Raw, string) {
				return wire.Raw(`{"type":"object"}`), "is missing; for a tool without parameters it must be {\"type\":\"object\"}"
			},
		},
		{name: "outputSchema", section: secOutput, check: checkOutputSchema, aliases: []string{"output_schema"}},
		{name: "annotations", section: secTool, check: func(w *walk, v wire.Value) wire.Raw {
			if v.Kind() != '{' {
				w.report(WrongType, secTool, true, "must be an object, not "+v.KindName())
				return removed
			}
			return w.checkObject(v, toolHints)
		}},
		{name: "execution", section: secTool, check: func(w *walk, v wire.Value) wire.Raw {
			if v.Kind() != '{' {
				w.report(WrongType, secTool, true, "must be an object, not "+v.KindName())
				return removed
			}
			return w.checkObject(v, []rule{{name: "taskSupport", section: secTool, check: checkEnum(secTool, "required", "optional", "forbidden")}})
		}},
		stray("readOnlyHint"), stray("destructiveHint"), stray("idempotentHint"), stray("openWorldHint"),
	}, itemMembers(secTool)...)
	name := func(section string) rule {
		return rule{name: "name", required: true, section: section, check: checkString(section), defaultValue: nameOfURI}
	}
	mime := rule{name: "mimeType", section: secResource, check: checkMIMEType, aliases: []string{"mime_type", "mimetype"}}
	resourceMembers = append([]rule{
		{name: "uri", required: true, section: secResource, check: checkURI, aliases: []string{"url"}, isURI: true},
		name(secResource), mime, annotationsRule,
		{name: "size", section: secResource, check: checkCount(secResource)},
	}, itemMembers(secResource)[:3]...)
	linkRules = blockRules(slices.Clone(resourceMembers)...)
	itemRules[call.Resource] = append(slices.Clone(resourceMembers), metaRule)
	itemRules[call.Template] = append([]rule{
		{name: "uriTemplate", required: true, section: secTemplate, check: checkString(secTemplate), aliases: []string{"uri_template"}},
		name(secTemplate), mime, annotationsRule,
	}, itemMembers(secTemplate)...)
	itemRules[call.Prompt] = append([]rule{
		{name: "name", required: true, section: secPrompt, check: checkString(secPrompt)},
		{name: "arguments", section: secPrompt, check: checkPromptArguments},
	}, itemMembers(secPrompt)...)
}

// nameOfURI returns a name for a resource without one: its title, else the last part of
// its URI.
func nameOfURI(_ *walk, obj wire.Value) (wire.Raw, string) {
	if title := obj.Get("title"); title.Kind() == '"' && !title.IsString("") {
		return title.Raw(), "is missing; title does not replace it"
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

// maxToolName is the recommended maximum length of a tool's name (2025-11-25,
// server/tools, "Tool Names").
const maxToolName = 128

// checkToolName checks the name of a tool against the recommendation.
func checkToolName(w *walk, v wire.Value) wire.Raw {
	name, ok := v.Text()
	if !ok {
		return w.stringOrQuoted(v, secTool)
	}
	if w.rev.AtLeast(wire.Rev20251125) && !isToolName(name) {
		w.report(InvalidName, secToolNames, false, fmt.Sprintf("%q must be 1 to %d of A-Z a-z 0-9 _ - .", plaintext.Clip(name, 64), maxToolName))
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

// checkPromptArguments checks the arguments of a prompt. It accepts an object of arguments by
// name in place of the array.
func checkPromptArguments(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '[':
		return w.checkArray(v, checkPromptArgument)
	case '{':
		w.report(WrongType, secPrompt, true, "must be an array of objects with name, not an object")
		out := wire.Raw{'['}
		for m := range v.Members() {
			one := wire.Raw(`{}`)
			if m.Value.Kind() == '{' {
				one = m.Value.Raw()
			}
			one = wire.SetMember(one, "name", m.Key.Raw())
			if fix := w.checkObject(wire.ValueOf(one), argumentRules); fix != nil {
				one = fix
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, one...)
		}
		return append(out, ']')
	default:
		w.report(WrongType, secPrompt, true, "must be an array of objects with name, not "+v.KindName())
		return removed
	}
}

var argumentRules = []rule{
	{name: "name", required: true, section: secPrompt, check: checkString(secPrompt)},
	{name: "title", section: secPrompt, check: checkString(secPrompt)},
	{name: "description", section: secPrompt, check: checkString(secPrompt)},
	{name: "required", section: secPrompt, check: checkBool(secPrompt)},
}

func checkPromptArgument(w *walk, v wire.Value) wire.Raw {
	if v.Kind() == '"' {
		w.report(WrongType, secPrompt, true, "must be an object with name, not a string")
		return wire.SetMember(wire.Raw(`{}`), "name", v.Raw())
	}
	if v.Kind() != '{' {
		w.report(WrongType, secPrompt, true, "must be an object with name, not "+v.KindName())
		return removed
	}
	fix, ok := w.checkObjectOr(v, argumentRules)
	if !ok {
		return removed
	}
	return fix
}
