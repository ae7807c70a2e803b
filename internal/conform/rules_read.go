package conform

import (
	"fmt"
	"strconv"

	"mcpgateway/internal/wire"
)

var readRules, completeRules, completionRules []rule

func init() {
	readRules = []rule{
		{name: "contents", required: true, section: secContents, check: allContents},
		metaRule,
	}
	completeRules = []rule{
		{name: "completion", required: true, section: secComplete, check: completionObject},
		{name: "values", section: secComplete, parent: "completion"},
		{name: "total", section: secComplete, parent: "completion"},
		{name: "hasMore", section: secComplete, parent: "completion"},
		metaRule,
	}
	completionRules = []rule{
		{name: "values", required: true, section: secComplete, check: completionValues},
		{name: "total", section: secComplete, check: checkCount(secComplete)},
		{name: "hasMore", section: secComplete, check: checkBool(secComplete), aliases: []string{"has_more"}},
	}
}

// checkRead checks the contents of a resource (ReadResourceResult).
func (w *walk) checkRead(result wire.Raw) wire.Raw {
	root := w.root(result)
	if at := root.Get("contents"); !at.Exists() || at.Kind() == 'n' {
		if moved := w.movedContents(root); moved != nil {
			return w.recheck(moved)
		}
	} else if at.Kind() == '{' {
		w.reportMember("contents", WrongType, secContents, true, "must be an array, not an object")
		e := wire.NewEdit(result)
		e.Replace(at, append(append(wire.Raw{'['}, at.Raw()...), ']'))
		return w.recheck(e.Bytes())
	}
	return w.checkObject(root, readRules)
}

// movedContents returns a result whose contents are misplaced with the contents in the
// right place, nil if they are not misplaced.
func (w *walk) movedContents(root wire.Value) wire.Raw {
	for _, name := range []string{"content", "resource", "resources"} {
		at := root.Get(name)
		if k := at.Kind(); k != '[' && k != '{' && k != '"' {
			continue
		}
		w.reportMember(name, Misplaced, secContents, true, "is no member of the result; it must be contents")
		e := wire.NewEdit(root.Raw())
		e.Remove(e.Root(), "contents", name)
		return wire.SetMember(e.Bytes(), "contents", at.Raw())
	}
	if root.Get("text").Exists() || root.Get("blob").Exists() {
		w.reportMember("contents", Missing, secContents, true, "is missing; uri, text and blob belong into an element of it")
		return wire.SetMember(wire.Raw(`{}`), "contents", append(append(wire.Raw{'['}, root.Raw()...), ']'))
	}
	return nil
}

func allContents(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '[':
		w.checkDocument(v)
		return w.checkArray(v, checkContents)
	case '"':
		w.report(WrongType, secContents, true, "must be an array, not a string")
		el := checkContents(w, v)
		return append(append(wire.Raw{'['}, el...), ']')
	default:
		w.report(WrongType, secContents, false, "must be an array, not "+v.KindName())
		w.unrepaired++
		return nil
	}
}

// checkDocument checks the contents of a document, which the draft SEP-2093 restricts: at
// least one element, and all with the requested URI.
func (w *walk) checkDocument(elements wire.Value) {
	asked := w.checker.asked()
	if w.checker.Resources == nil || asked == "" || !wire.ValueOf(w.checker.Resources.Listed(asked)).Get("resourceType").IsString("document") {
		return
	}
	n := 0
	for el := range elements.Elements() {
		if uri := el.Get("uri"); uri.Kind() == '"' && !uri.IsString(asked) {
			w.push("", n)
			w.reportMember("uri", DocumentContents, secSEP2093Documents, false, "is not that of the document that was asked for, as those of all its contents must be")
			w.pop()
		}
		n++
	}
	if n == 0 {
		w.report(DocumentContents, secSEP2093Documents, false, "is empty; a document has contents, an empty text if need be")
	}
}

// checkCompletion checks completions (CompleteResult).
func (w *walk) checkCompletion(result wire.Raw) wire.Raw {
	return w.checkObject(wire.ValueOf(result), completeRules)
}

func completionObject(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '{':
		fix := w.checkObject(v, completionRules)
		if n := count(v.Get("values")); n > maxCompletions && w.repair {
			fix = wire.SetMember(fix, "hasMore", wire.Raw("true"))
			if !v.Get("total").Exists() {
				fix = wire.SetMember(fix, "total", wire.Raw(strconv.Itoa(n)))
			}
		}
		return fix
	case '[':
		w.report(WrongType, secComplete, true, "must be an object with values, not an array")
		return w.checkRebuilt(wire.SetMember(wire.Raw(`{}`), "values", v.Raw()), completionRules)
	default:
		w.report(WrongType, secComplete, false, "must be an object with values, not "+v.KindName())
		w.unrepaired++
		return nil
	}
}

// checkRebuilt checks a repaired object and returns it with its own violations repaired.
func (w *walk) checkRebuilt(doc wire.Raw, rules []rule) wire.Raw {
	if fix := w.checkObject(wire.ValueOf(doc), rules); fix != nil {
		return fix
	}
	return doc
}

// count returns the number of elements.
func count(array wire.Value) int {
	n := 0
	for range array.Elements() {
		n++
	}
	return n
}

// maxCompletions is the maximum number of values of one completion.
const maxCompletions = 100

func completionValues(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '[' {
		w.report(WrongType, secComplete, v.Kind() == '"', "must be an array of strings, not "+v.KindName())
		if v.Kind() != '"' {
			w.unrepaired++
			return nil
		}
		return append(append(wire.Raw{'['}, v.Raw()...), ']')
	}
	n := count(v)
	if n > maxCompletions {
		w.report(InvalidValue, secComplete, true, fmt.Sprintf("has %d values; it may have 100 at most, and hasMore says that there are more", n))
	}
	n = 0
	return w.checkArray(v, func(w *walk, el wire.Value) wire.Raw {
		if n++; n > maxCompletions {
			return removed
		}
		return w.stringOrQuoted(el, secComplete)
	})
}
