package metatool

import "mcpgateway/internal/wire"

// effect is the kind of effects that a tool may have, by its annotations. Annotations that are
// missing have the defaults of the specification.
type effect uint8

const (
	anyEffect effect = iota
	reads
	writes
	destroys
)

// effectOf returns the effect that the definition of a tool declares.
func effectOf(definition wire.Raw) effect {
	a := wire.ValueOf(definition).Get("annotations")
	switch {
	case a.Get("readOnlyHint").Kind() == 't':
		return reads
	case a.Get("destructiveHint").Kind() == 'f':
		return writes
	default:
		return destroys
	}
}

// words says what a tool with this effect does.
func (e effect) words() string {
	return [...]string{reads: "reads", writes: "writes", destroys: "may destroy"}[e]
}

// callerOf returns the name of the tool that calls tools with this effect.
func (e effect) callerOf() string {
	for _, c := range callers {
		if c.effect == e {
			return c.name
		}
	}
	return CallTool
}
