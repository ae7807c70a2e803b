package conform

import (
	"strings"

	"mcpgateway/internal/content"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

var toolRules []rule

func init() {
	toolRules = []rule{
		{name: "content", required: true, section: secToolResult, check: checkContent, defaultValue: emptyContent},
		{name: "structuredContent", section: secStructured, nullable: true, aliases: []string{"structured_content"}},
		{name: "isError", section: secToolResult, check: checkBool(secToolResult), aliases: []string{"is_error"}},
		metaRule,
	}
}

// emptyContent returns an empty content. If there is structuredContent, its text is added
// later.
func emptyContent(*walk, wire.Value) (wire.Raw, string) {
	return wire.Raw(`[]`), "is missing; it must be an array of blocks, which may be empty"
}

// checkToolResult checks the result of a tool (CallToolResult).
func (w *walk) checkToolResult(result wire.Raw) wire.Raw {
	root := w.root(result)
	if !root.Get("content").Exists() && root.Get("toolResult").Exists() {
		old := root.Get("toolResult")
		// An unofficial form that is older than the first revision.
		w.reportMember("toolResult", Misplaced, secToolResult, true, "belongs to no revision; content must be in the result itself")
		if old.Get("content").Exists() {
			return w.recheck(old.Raw())
		}
		e := wire.NewEdit(result)
		e.Remove(e.Root(), "toolResult")
		return w.recheck(wire.SetMember(e.Bytes(), "content", contentOf(old)))
	}
	fix := w.checkObject(root, toolRules)
	now := result
	if fix != nil {
		now = fix
	}
	if w.isError != nil && !wire.ValueOf(now).Get("isError").Exists() && w.repair {
		now = wire.SetMember(now, "isError", w.isError)
	}
	now = w.checkStructuredContent(now)
	if &now[0] == &result[0] {
		return nil
	}
	return now
}

// recheck checks a result whose parts were moved.
func (w *walk) recheck(result wire.Raw) wire.Raw {
	if !w.repair {
		return nil
	}
	result = w.checker.rewritten(result)
	if fix := w.result(result); fix != nil {
		return fix
	}
	return result
}

// contentOf returns the content for a toolResult that is not a result.
func contentOf(v wire.Value) wire.Raw {
	if v.Kind() == '[' {
		all := true
		for el := range v.Elements() {
			rules, _ := rulesOf(el.Get("type"))
			all = all && rules != nil
		}
		if all {
			return v.Raw()
		}
	}
	text, ok := v.Text()
	if !ok {
		text = string(v.Raw())
	}
	return append(append(wire.Raw{'['}, content.TextBlock(text)...), ']')
}

// checkStructuredContent checks structuredContent against the revision, the outputSchema and the text
// beside it. It returns the repaired result.
func (w *walk) checkStructuredContent(result wire.Raw) wire.Raw {
	if w.checker.Output == nil && !w.root(result).MayContain("Content") {
		return result
	}
	var at wire.Value
	failed := false
	for m := range w.root(result).Members() {
		switch {
		case m.Is("structuredContent"):
			at = m.Value
		case m.Is("isError"):
			failed = m.Value.Kind() == 't'
		}
	}
	old := w.rev != "" && !w.rev.AtLeast(wire.Rev20260728)
	if at.Exists() && old && at.Kind() != '{' {
		if at.Kind() == 'n' {
			w.reportMember("structuredContent", NullMember, secStructured, true, "is null; an optional member without a value must be left out")
			result = w.removeStructured(result, false)
			at = wire.Value{}
		} else {
			// Package downlevel replaces it for clients that do not know it.
			w.reportMember("structuredContent", StructuredNotObject, secStructured, false, "must be an object before revision 2026-07-28, not "+at.KindName())
		}
	}
	if schema := w.checker.Output; schema != nil && schema.Err() == nil {
		switch {
		case !at.Exists() && !failed:
			result = w.findStructured(result, schema)
		case at.Exists():
			result = w.validateStructured(result, at, schema, failed)
		}
	}
	root := w.root(result)
	at, blocks := root.Get("structuredContent"), root.Get("content")
	if !at.Exists() || hasText(blocks) {
		return result
	}
	// Other blocks say the same in a form that clients can show. Their data, as text,
	// would only cost the model its context.
	empty := isEmpty(blocks)
	w.reportMember("structuredContent", StructuredAlone, secStructured, empty, "has no text block beside it; add one with its JSON, for clients that read text only")
	if !w.repair || !empty {
		return result
	}
	return addText(result, at)
}

func isEmpty(blocks wire.Value) bool {
	for range blocks.Elements() {
		return false
	}
	return true
}

// maxCandidates is the maximum number of texts that are validated against the
// outputSchema.
const maxCandidates = 3

// findStructured searches the text blocks for the missing structuredContent.
func (w *walk) findStructured(result wire.Raw, schema *toolschema.Schema) wire.Raw {
	var found wire.Raw
	fits, candidates := 0, 0
	for el := range wire.ValueOf(result).Get("content").Elements() {
		if !w.repair || candidates > maxCandidates {
			break
		}
		text := strings.TrimSpace(el.Get("text").Str())
		if !el.Get("type").IsString("text") || text == "" || text[0] != '{' {
			continue
		}
		candidates++
		if wire.Check([]byte(text), wire.Limits{}, wire.Lenient) == nil && schema.Validate(wire.Raw(text)) == nil {
			found = wire.Raw(text)
			fits++
		}
	}
	one := fits == 1 && candidates <= maxCandidates
	w.reportMember("structuredContent", StructuredMissing, secOutput, one, "is missing; the tool has an outputSchema, which its results must match")
	switch {
	case !w.repair:
		return result
	case one:
		return wire.SetMember(result, "structuredContent", found)
	}
	w.unrepaired++
	return result
}

// validateStructured validates structuredContent against the outputSchema.
func (w *walk) validateStructured(result wire.Raw, at wire.Value, schema *toolschema.Schema, failed bool) wire.Raw {
	err := schema.Validate(at.Raw())
	if err == nil || toolschema.IsUnchecked(err) {
		return result
	}
	w.reportMember("structuredContent", StructuredMismatch, secOutput, failed, "does not match the outputSchema of the tool: "+err.Error())
	if failed {
		return w.removeStructured(result, true)
	}
	w.unrepaired++
	return result
}

// removeStructured removes structuredContent. If text is set, a text block keeps its JSON.
func (w *walk) removeStructured(result wire.Raw, text bool) wire.Raw {
	if !w.repair {
		return result
	}
	if at := wire.ValueOf(result).Get("structuredContent"); text && !content.HasTextOf(wire.ValueOf(result).Get("content"), at) {
		result = addText(result, at)
	}
	e := wire.NewEdit(result)
	e.Remove(e.Root(), "structuredContent")
	return e.Bytes()
}

func hasText(blocks wire.Value) bool {
	for el := range blocks.Elements() {
		if el.Get("type").IsString("text") {
			return true
		}
	}
	return false
}

// addText adds a text block with the JSON of v.
func addText(result wire.Raw, v wire.Value) wire.Raw {
	blocks := wire.ValueOf(result).Get("content")
	if blocks.Exists() && blocks.Kind() != '[' {
		return result
	}
	return wire.SetMember(result, "content", content.AppendElement(blocks, content.TextBlock(string(v.Raw()))))
}
