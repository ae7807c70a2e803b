package profile

import "mcpgateway/internal/wire"

// hints returns the hints about a tool. Missing hints have the defaults of the
// specification. By the specification two hints have no meaning for a read-only tool: it is
// non-destructive and idempotent.
func hints(tool wire.Raw) map[string]bool {
	given := wire.ValueOf(tool).Get("annotations")
	hint := func(name string, otherwise bool) bool {
		switch given.Get(name).Kind() {
		case 't':
			return true
		case 'f':
			return false
		}
		return otherwise
	}
	reads := hint("readOnlyHint", false)
	return map[string]bool{
		"readOnlyHint":    reads,
		"destructiveHint": !reads && hint("destructiveHint", true),
		"idempotentHint":  reads || hint("idempotentHint", false),
		"openWorldHint":   hint("openWorldHint", true),
	}
}

// hasHints reports whether a tool has the hints, which are those of the specification.
func hasHints(tool wire.Raw, want map[string]bool) bool {
	if len(want) == 0 {
		return true
	}
	has := hints(tool)
	for name, hint := range want {
		if has[name] != hint {
			return false
		}
	}
	return true
}
