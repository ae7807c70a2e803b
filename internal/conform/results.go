package conform

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"mcpgateway/internal/wire"
)

// walks keeps walkers: a result without faults costs no memory.
var walks = sync.Pool{New: func() any { return new(walk) }}

func (w *walk) release() {
	*w = walk{}
	walks.Put(w)
}

var toolRules []rule

func init() {
	toolRules = []rule{
		{name: "content", need: true, section: secToolResult, check: contentBlocks, fill: fillContent},
		{name: "structuredContent", section: secStructured, keep: true, other: []string{"structured_content"}},
		{name: "isError", section: secToolResult, check: aBool(secToolResult), other: []string{"is_error"}},
		metaRule,
	}
}

// fillContent is the content of a result without any: empty. Where there is
// structuredContent its text is added afterwards.
func fillContent(*walk, wire.Value) (wire.Raw, string) {
	return wire.Raw(`[]`), "is missing; it must be an array of blocks, which may be empty"
}

// toolResult checks the result of a tool (CallToolResult).
func (w *walk) toolResult(result wire.Raw) wire.Raw {
	root := wire.ValueOf(result)
	if root.Kind() != '{' {
		w.found(NoResult, secRPC, true, "must be an object with content, not "+kindOf(root))
		return w.again(wire.SetMember(wire.Raw(`{}`), "content", bare(root)))
	}
	if old := root.Get("toolResult"); old.Exists() && !root.Get("content").Exists() {
		// As it was before the first revision.
		w.foundIn("toolResult", Misplaced, secToolResult, true, "is of no revision; content belongs into the result itself")
		if old.Get("content").Exists() {
			return w.again(old.Raw())
		}
		e := wire.NewEdit(result)
		e.Remove(e.Root(), "toolResult")
		return w.again(wire.SetMember(e.Bytes(), "content", bare(old)))
	}
	fix := w.object(root, toolRules)
	now := result
	if fix != nil {
		now = fix
	}
	if w.raised != nil && !wire.ValueOf(now).Get("isError").Exists() && w.mend {
		now = wire.SetMember(now, "isError", w.raised)
	}
	now = w.structured(now)
	if &now[0] == &result[0] {
		return nil
	}
	return now
}

// again checks a result whose parts were brought to their places.
func (w *walk) again(result wire.Raw) wire.Raw {
	if !w.mend {
		return nil
	}
	result = w.subject.rewritten(result)
	if fix := w.result(result); fix != nil {
		return fix
	}
	return result
}

// bare is the content that a value stands for which is no result.
func bare(v wire.Value) wire.Raw {
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
	return append(append(wire.Raw{'['}, textBlock(text)...), ']')
}

// structured checks structuredContent against its place, its text and the
// outputSchema. It returns what mends the result.
func (w *walk) structured(result wire.Raw) wire.Raw {
	if w.subject.Output == nil && !mayHold(result, "structuredContent") {
		return result
	}
	var at wire.Value
	failed := false
	for m := range wire.ValueOf(result).Members() {
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
			w.foundIn("structuredContent", NullMember, secStructured, true, "is null; an optional member without a value must be left out")
			result = w.unstructured(result, false)
			at = wire.Value{}
		} else {
			// Clients who do not know such a thing get it as text anyhow.
			w.foundIn("structuredContent", StructuredNotObject, secStructured, false, "must be an object before revision 2026-07-28, not "+kindOf(at))
		}
	}
	if schema := w.subject.Output; schema != nil && schema.Fault() == nil {
		switch {
		case !at.Exists() && !failed:
			result = w.missingStructured(result, schema)
		case at.Exists():
			result = w.misfit(result, at, schema, failed)
		}
	}
	at = wire.ValueOf(result).Get("structuredContent")
	if !at.Exists() || hasText(wire.ValueOf(result).Get("content")) {
		return result
	}
	w.foundIn("structuredContent", StructuredAlone, secStructured, true, "has no text block beside it; its JSON should be there as text, for clients that read no other")
	if !w.mend {
		return result
	}
	return withText(result, at)
}

// missingStructured looks for the structured content in the text.
func (w *walk) missingStructured(result wire.Raw, schema *Schema) wire.Raw {
	var found wire.Raw
	count := 0
	for el := range wire.ValueOf(result).Get("content").Elements() {
		text := strings.TrimSpace(el.Get("text").Str())
		if !el.Get("type").IsString("text") || text == "" || text[0] != '{' {
			continue
		}
		if wire.Check([]byte(text), wire.Limits{}, wire.Lenient) == nil && schema.Check(wire.Raw(text)) == nil {
			found = wire.Raw(text)
			count++
		}
	}
	w.foundIn("structuredContent", StructuredMissing, secOutput, count == 1, "is missing; the tool has an outputSchema, and its results must fit that")
	switch {
	case !w.mend:
		return result
	case count == 1:
		return wire.SetMember(result, "structuredContent", found)
	}
	w.stuck++
	return result
}

// misfit holds structuredContent against the outputSchema.
func (w *walk) misfit(result wire.Raw, at wire.Value, schema *Schema, failed bool) wire.Raw {
	err := schema.Check(at.Raw())
	if err == nil || Unchecked(err) {
		return result
	}
	w.foundIn("structuredContent", StructuredMismatch, secOutput, failed, "does not fit the outputSchema of the tool: "+err.Error())
	if failed {
		return w.unstructured(result, true)
	}
	w.stuck++
	return result
}

// unstructured takes structuredContent out, and leaves its text if that is
// asked for.
func (w *walk) unstructured(result wire.Raw, text bool) wire.Raw {
	if !w.mend {
		return result
	}
	if at := wire.ValueOf(result).Get("structuredContent"); text && !says(wire.ValueOf(result).Get("content"), at) {
		result = withText(result, at)
	}
	e := wire.NewEdit(result)
	e.Remove(e.Root(), "structuredContent")
	return e.Bytes()
}

func hasText(content wire.Value) bool {
	for el := range content.Elements() {
		if el.Get("type").IsString("text") {
			return true
		}
	}
	return false
}

// withText adds a text block with the JSON of v.
func withText(result wire.Raw, v wire.Value) wire.Raw {
	content := wire.ValueOf(result).Get("content")
	if content.Exists() && content.Kind() != '[' {
		return result
	}
	return wire.SetMember(result, "content", appended(content, textBlock(string(v.Raw()))))
}

var promptRules, messageRules []rule

func init() {
	promptRules = []rule{
		{name: "description", section: secPrompt, check: aString(secPrompt)},
		{name: "messages", need: true, section: secPrompt, check: promptMessages},
		metaRule,
	}
	messageRules = []rule{
		{
			name: "role", need: true, section: secMessages, check: aRole,
			fill: func(*walk, wire.Value) (wire.Raw, string) {
				return wire.Raw(`"user"`), "is missing; it must be user or assistant"
			},
		},
		{name: "content", need: true, section: secMessages, check: promptContent, other: []string{"text"}},
	}
}

// prompt checks a prompt (GetPromptResult).
func (w *walk) prompt(result wire.Raw) wire.Raw {
	root := wire.ValueOf(result)
	if root.Kind() != '{' {
		w.found(NoResult, secRPC, root.Kind() == '"' || root.Kind() == '[', "must be an object with messages, not "+kindOf(root))
		if root.Kind() != '"' && root.Kind() != '[' {
			w.stuck++
			return nil
		}
		return w.again(wire.SetMember(wire.Raw(`{}`), "messages", root.Raw()))
	}
	if at := root.Get("messages"); at.Kind() == '{' {
		w.foundIn("messages", WrongType, secPrompt, true, "must be an array of messages, not an object")
		e := wire.NewEdit(result)
		e.Replace(at, append(append(wire.Raw{'['}, at.Raw()...), ']'))
		return w.again(e.Bytes())
	}
	return w.object(root, promptRules)
}

func promptMessages(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '[':
		return w.array(v, promptMessage)
	case '"':
		w.found(WrongType, secPrompt, true, "must be an array of messages, not a string")
		return append(append(wire.Raw{'['}, promptMessage(w, v)...), ']')
	default:
		w.found(WrongType, secPrompt, false, "must be an array of messages, not "+kindOf(v))
		w.stuck++
		return nil
	}
}

// promptMessage checks one message. It returns several where one has several
// blocks.
func promptMessage(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '{':
	case '"':
		w.found(WrongType, secMessages, true, "must be a message with role and content, not a string")
		return turn(wire.Raw(`"user"`), textBlock(v.Str()))
	default:
		w.found(WrongType, secMessages, true, "must be a message with role and content, not "+kindOf(v))
		return turn(wire.Raw(`"user"`), textBlock(string(v.Raw())))
	}
	if content := v.Get("content"); content.Kind() == '[' {
		return w.split(v, content)
	}
	stuck := w.stuck
	fix := w.object(v, messageRules)
	if w.stuck > stuck {
		w.stuck = stuck
		w.settled()
		return turn(wire.Raw(`"user"`), textBlock(string(v.Raw())))
	}
	return fix
}

// split makes a message of every block of one that has several.
func (w *walk) split(v, content wire.Value) wire.Raw {
	w.foundIn("content", WrongType, secMessages, true, "must be one block, not an array; every block needs a message of its own")
	if !w.mend {
		return nil
	}
	role := v.Get("role").Raw()
	if role == nil {
		role = wire.Raw(`null`)
	}
	out := gone
	for el := range content.Elements() {
		one := turn(role, el.Raw())
		if el.Kind() == '[' {
			one = turn(role, textBlock(string(el.Raw())))
		}
		if fix := promptMessage(w, wire.ValueOf(one)); fix != nil {
			one = fix
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, one...)
	}
	return out
}

// turn returns a message of a prompt.
func turn(role, content wire.Raw) wire.Raw {
	return wire.SetMember(wire.SetMember(wire.Raw(`{}`), "role", role), "content", content)
}

// aRole checks a role. Prompts are what users put to models, so any other role
// is theirs.
func aRole(w *walk, v wire.Value) wire.Raw {
	if isRole(v) {
		return nil
	}
	w.found(InvalidRole, secMessages, true, fmt.Sprintf("%q is no role of prompts; it must be user or assistant", clip(v.Str(), 32)))
	switch strings.ToLower(v.Str()) {
	case "assistant", "model", "ai":
		return wire.Raw(`"assistant"`)
	}
	return wire.Raw(`"user"`)
}

func promptContent(w *walk, v wire.Value) wire.Raw {
	if v.Kind() == '"' {
		w.found(WrongType, secMessages, true, "must be a block such as {\"type\":\"text\",\"text\":…}, not a string")
		return textBlock(v.Str())
	}
	return block(w, v)
}

var readRules, completeRules, completionRules []rule

func init() {
	readRules = []rule{
		{name: "contents", need: true, section: secContents, check: allContents},
		metaRule,
	}
	completeRules = []rule{
		{name: "completion", need: true, section: secComplete, check: aCompletion},
		{name: "values", section: secComplete, into: "completion"},
		{name: "total", section: secComplete, into: "completion"},
		{name: "hasMore", section: secComplete, into: "completion"},
		metaRule,
	}
	completionRules = []rule{
		{name: "values", need: true, section: secComplete, check: theValues},
		{name: "total", section: secComplete, check: aCount(secComplete)},
		{name: "hasMore", section: secComplete, check: aBool(secComplete), other: []string{"has_more"}},
	}
}

// read checks the contents of a resource (ReadResourceResult).
func (w *walk) read(result wire.Raw) wire.Raw {
	root := wire.ValueOf(result)
	if root.Kind() != '{' {
		ok := root.Kind() == '"' || root.Kind() == '['
		w.found(NoResult, secRPC, ok, "must be an object with contents, not "+kindOf(root))
		if !ok {
			w.stuck++
			return nil
		}
		return w.again(wire.SetMember(wire.Raw(`{}`), "contents", root.Raw()))
	}
	if at := root.Get("contents"); !at.Exists() || at.Kind() == 'n' {
		if moved := w.movedContents(root); moved != nil {
			return w.again(moved)
		}
	} else if at.Kind() == '{' {
		w.foundIn("contents", WrongType, secContents, true, "must be an array, not an object")
		e := wire.NewEdit(result)
		e.Replace(at, append(append(wire.Raw{'['}, at.Raw()...), ']'))
		return w.again(e.Bytes())
	}
	return w.object(root, readRules)
}

// movedContents returns the result with the contents where they belong, nil when
// there are none elsewhere.
func (w *walk) movedContents(root wire.Value) wire.Raw {
	for _, name := range []string{"content", "resource", "resources"} {
		at := root.Get(name)
		if k := at.Kind(); k != '[' && k != '{' && k != '"' {
			continue
		}
		w.foundIn(name, Misplaced, secContents, true, "is no member of the result; it must be contents")
		e := wire.NewEdit(root.Raw())
		e.Remove(e.Root(), "contents", name)
		return wire.SetMember(e.Bytes(), "contents", at.Raw())
	}
	if root.Get("text").Exists() || root.Get("blob").Exists() {
		w.foundIn("contents", Missing, secContents, true, "is missing; uri, text and blob belong into an element of it")
		return wire.SetMember(wire.Raw(`{}`), "contents", append(append(wire.Raw{'['}, root.Raw()...), ']'))
	}
	return nil
}

func allContents(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '[':
		return w.array(v, contents)
	case '"':
		w.found(WrongType, secContents, true, "must be an array, not a string")
		el := contents(w, v)
		return append(append(wire.Raw{'['}, el...), ']')
	default:
		w.found(WrongType, secContents, false, "must be an array, not "+kindOf(v))
		w.stuck++
		return nil
	}
}

// completion checks proposals (CompleteResult).
func (w *walk) completion(result wire.Raw) wire.Raw {
	root := wire.ValueOf(result)
	if root.Kind() != '{' {
		w.found(NoResult, secRPC, false, "must be an object with completion, not "+kindOf(root))
		w.stuck++
		return nil
	}
	return w.object(root, completeRules)
}

func aCompletion(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '{':
		fix := w.object(v, completionRules)
		if n := count(v.Get("values")); n > maxProposals && w.mend {
			fix = wire.SetMember(fix, "hasMore", wire.Raw("true"))
			if !v.Get("total").Exists() {
				fix = wire.SetMember(fix, "total", wire.Raw(strconv.Itoa(n)))
			}
		}
		return fix
	case '[':
		w.found(WrongType, secComplete, true, "must be an object with values, not an array")
		return w.remade(wire.SetMember(wire.Raw(`{}`), "values", v.Raw()), completionRules)
	default:
		w.found(WrongType, secComplete, false, "must be an object with values, not "+kindOf(v))
		w.stuck++
		return nil
	}
}

// remade checks an object that mends another and returns it with its own faults
// mended.
func (w *walk) remade(doc wire.Raw, rules []rule) wire.Raw {
	if fix := w.object(wire.ValueOf(doc), rules); fix != nil {
		return fix
	}
	return doc
}

// count returns how many elements an array has.
func count(array wire.Value) int {
	n := 0
	for range array.Elements() {
		n++
	}
	return n
}

// maxProposals is how many values one completion may have.
const maxProposals = 100

func theValues(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '[' {
		w.found(WrongType, secComplete, v.Kind() == '"', "must be an array of strings, not "+kindOf(v))
		if v.Kind() != '"' {
			w.stuck++
			return nil
		}
		return append(append(wire.Raw{'['}, v.Raw()...), ']')
	}
	n := count(v)
	if n > maxProposals {
		w.found(InvalidValue, secComplete, true, fmt.Sprintf("has %d values; it may have 100 at most, and hasMore says that there are more", n))
	}
	n = 0
	return w.array(v, func(w *walk, el wire.Value) wire.Raw {
		if n++; n > maxProposals {
			return gone
		}
		return w.text(el, secComplete)
	})
}
