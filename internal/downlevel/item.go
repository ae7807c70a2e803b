package downlevel

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// ItemClass is a group of revisions between which no list item differs.
type ItemClass uint8

// The classes, from the newest revisions to the oldest.
const (
	ItemsAsListed  ItemClass = iota // 2026-07-28 and later
	ItemsWithTasks                  // 2025-11-25
	ItemsPlain                      // before
)

// ItemClasses is the number of classes: an array of that length has a place for
// each.
const ItemClasses = 3

// ItemClassOf returns the class of a revision.
func ItemClassOf(rev wire.Revision) ItemClass {
	switch {
	case rev.AtLeast(wire.Rev20260728):
		return ItemsAsListed
	case rev.AtLeast(wire.Rev20251125):
		return ItemsWithTasks
	default:
		return ItemsPlain
	}
}

// Item returns an item of a list as clients of the class can take it, and
// what was replaced in it.
func Item(class ItemClass, kind call.Kind, item wire.Raw) (wire.Raw, Counts) {
	if class == ItemsAsListed || kind != call.Tool {
		return item, Counts{}
	}
	l := tool{editor{LazyEdit: content.LazyEdit{Doc: item}}}
	root := wire.ValueOf(item)
	odd := false
	for m := range root.Members() {
		switch {
		case m.Is("outputSchema"):
			odd = odd || !isObjectSchema(m.Value)
		case m.Is("inputSchema"):
			l.booleans(m.Value)
		case class == ItemsPlain && m.Is("execution") && needsTask(m.Value):
			// Clients refuse to call such a tool if they cannot make tasks.
			l.count(TaskRequired).Remove(m.Value, "taskSupport")
		}
	}
	if odd {
		l.count(OutputSchema).Remove(root, "outputSchema")
		return l.done()
	}
	for m := range root.Members() {
		if m.Is("outputSchema") {
			l.booleans(m.Value)
		}
	}
	return l.done()
}

// isObjectSchema reports whether a schema is one that outputSchema may be before
// 2026-07-28. Every type that it names counts, if it names several.
func isObjectSchema(schema wire.Value) bool {
	is := false
	for m := range schema.Members() {
		if m.Is("type") {
			if !m.Value.IsString("object") {
				return false
			}
			is = true
		}
	}
	return is
}

func needsTask(execution wire.Value) bool {
	for m := range execution.Members() {
		if m.Is("taskSupport") && m.Value.IsString("required") {
			return true
		}
	}
	return false
}

// tool replaces what a class of revisions does not know in one tool.
type tool struct{ editor }

// booleans replaces properties of a schema whose own schema is true or false.
// Before 2026-07-28 the protocol allows none but objects there; deeper down it
// never said anything.
func (l *tool) booleans(schema wire.Value) {
	for m := range schema.Members() {
		if !m.Is("properties") {
			continue
		}
		for p := range m.Value.Members() {
			switch p.Value.Kind() {
			case 't':
				l.count(BooleanSchema).Replace(p.Value, wire.Raw(`{}`))
			case 'f':
				l.count(BooleanSchema).Replace(p.Value, wire.Raw(`{"not":{}}`))
			}
		}
	}
}
