package downlevel

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// ItemClass is a group of revisions with the same form of list items.
type ItemClass uint8

// The classes, from the newest revisions to the oldest.
const (
	ItemsAsListed  ItemClass = iota // 2026-07-28 and later
	ItemsWithTasks                  // 2025-11-25
	ItemsPlain                      // older revisions
)

// ItemClasses is the number of classes, for arrays that are indexed by class.
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

// Item returns a list item for clients of the class, and counts the replacements.
func Item(class ItemClass, kind call.Kind, item wire.Raw) (wire.Raw, Counts) {
	if class == ItemsAsListed || kind != call.Tool {
		return item, Counts{}
	}
	l := toolEditor{editor{LazyEdit: content.LazyEdit{Doc: item}}}
	root := wire.ValueOf(item)
	odd := false
	for m := range root.Members() {
		switch {
		case m.Is("outputSchema"):
			odd = odd || !isObjectSchema(m.Value)
		case m.Is("inputSchema"):
			l.booleans(m.Value)
		case class == ItemsPlain && m.Is("execution") && needsTask(m.Value):
			// Clients without tasks refuse to call such a tool.
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

// isObjectSchema reports whether an outputSchema is valid before 2026-07-28: every type
// that it names must be "object".
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

// toolEditor replaces parts of one tool.
type toolEditor struct{ editor }

// booleans replaces properties whose schema is true or false. Before 2026-07-28 the
// protocol allows only objects there; it never restricted deeper schemas.
func (l *toolEditor) booleans(schema wire.Value) {
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
