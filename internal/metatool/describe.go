package metatool

import (
	"fmt"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

const (
	maxDescribed      = 20
	maxDescribedBytes = 256 << 10 // of all definitions in one answer; max_result may say less
)

// describe returns the definitions of tools by name.
func (in *invocation) describe() call.Result {
	names, wrong := readNames(in.args)
	if wrong != "" {
		return mistake("%s", wrong)
	}
	tools, unknown, leftOut := wire.Raw{'['}, wire.Raw{'['}, wire.Raw{'['}
	var text strings.Builder
	found, limit := 0, in.maxDescribed()
	for _, name := range names {
		target, ok := in.view.Resolve(call.Tool, name)
		if !ok {
			near := in.near(name)
			unknown = appendUnknown(unknown, name, near)
			fmt.Fprintf(&text, "There is no tool %q.%s\n", plaintext.Clip(name, maxNamed), in.suggestion(name))
			continue
		}
		raw := whole(target.Entry)
		if found > 0 && len(tools)+len(raw) > limit {
			leftOut = wire.AppendString(comma(leftOut), name)
			fmt.Fprintf(&text, "%s is left out, because the answer would be too long: ask for it alone.\n", name)
			continue
		}
		found++
		tools = append(comma(tools), raw...)
		text.Write(forModels(raw))
		text.WriteByte('\n')
	}
	structured := wire.SetMember(wire.Raw(`{}`), "tools", append(tools, ']'))
	if len(unknown) > 1 {
		structured = wire.SetMember(structured, "unknown", append(unknown, ']'))
	}
	if len(leftOut) > 1 {
		structured = wire.SetMember(structured, "left_out", append(leftOut, ']'))
	}
	raw := wire.SetMember(textResult(strings.TrimSuffix(text.String(), "\n")), "structuredContent", structured)
	if found == 0 {
		raw = wire.SetMember(raw, "isError", wire.Raw("true"))
	}
	return call.Result{Raw: raw}
}

// maxDescribed returns how many bytes the definitions in one answer may have together. The first may have
// more, so that each tool can be described.
func (in *invocation) maxDescribed() int {
	if in.tools.Results != nil {
		if n := in.tools.Results.Max(in.call.Principal.Profile); n > 0 {
			return min(n, maxDescribedBytes)
		}
	}
	return maxDescribedBytes
}

// whole returns the definition of a tool with everything that its profile leaves out of lists, under
// the name that the profile shows.
func whole(e *catalog.Entry) wire.Raw {
	if raw := e.Ordinary().Raw; !wire.ValueOf(raw).Get("name").IsString(e.Public) {
		return wire.SetMember(raw, "name", wire.String(e.Public))
	}
	return e.Ordinary().Raw
}

// forModels returns a definition without the members that are for hosts.
func forModels(definition wire.Raw) wire.Raw {
	e := wire.NewEdit(definition)
	e.Remove(e.Root(), "icons", "_meta", "execution")
	return e.Bytes()
}

// appendUnknown appends a name that the view does not have, and names that are like it.
func appendUnknown(b wire.Raw, name string, near []string) wire.Raw {
	b = append(comma(b), `{"name":`...)
	b = append(wire.AppendString(b, plaintext.Clip(name, maxNamed)), `,"similar":`...)
	return append(append(b, wire.Strings(near)...), '}')
}

// comma appends a comma unless b is the beginning of an array.
func comma(b wire.Raw) wire.Raw {
	if len(b) > 1 {
		b = append(b, ',')
	}
	return b
}

// readNames reads the names of tools. A model may write one name without an array, the text of
// an array, or `name`.
func readNames(args wire.Value) (names []string, wrong string) {
	given := args.Get("names")
	if !given.Exists() {
		given = args.Get("name")
	}
	if text, ok := given.Text(); ok && strings.HasPrefix(text, "[") && wire.Check([]byte(text), wire.Limits{}, wire.Strict) == nil {
		given = wire.ValueOf([]byte(text))
	}
	if text, ok := given.Text(); ok {
		names = []string{text}
	}
	if given.Kind() == '[' {
		for el := range given.Elements() {
			text, ok := el.Text()
			if !ok {
				names = nil
				break
			}
			if names = append(names, text); len(names) > maxDescribed {
				return nil, fmt.Sprintf("%s describes at most %d tools at once: ask for fewer names.", DescribeTools, maxDescribed)
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Sprintf("%s needs `names`: an array with the names of tools, as %s returned them: {\"names\": [\"…\"]}.", DescribeTools, SearchTools)
	}
	return names, ""
}
