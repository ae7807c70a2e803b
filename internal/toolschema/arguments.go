package toolschema

import (
	"errors"
	"fmt"
	"strings"

	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// RejectArguments returns the result of a call whose arguments, valid JSON, do not match
// the inputSchema of the tool: an error that tells the model how to correct them. It
// returns nil if they match, or if that cannot be checked within bounds.
func RejectArguments(tool string, schema *Schema, arguments wire.Raw) wire.Raw {
	mismatch, ok := errors.AsType[*ValidationError](schema.Validate(arguments))
	if !ok {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The arguments do not match the input schema of %s, so the tool was not called:\n", tool)
	for _, v := range mismatch.Violations {
		fmt.Fprintf(&b, "- %s %s\n", v.Path, v.Message)
	}
	if mismatch.More > 0 {
		fmt.Fprintf(&b, "- and %d more\n", mismatch.More)
	}
	writeMisspelled(&b, wire.ValueOf(schema.raw).Get("properties"), wire.ValueOf(arguments))
	b.WriteString("Paths begin at the arguments ($). Correct them and call the tool again.")
	blocks := append(append(wire.Raw{'['}, content.TextBlock(b.String())...), ']')
	return wire.SetMember(wire.SetMember(wire.Raw(`{}`), "content", blocks), "isError", wire.Raw("true"))
}

// maxParameters bounds with how many parameters an argument is compared.
const maxParameters = 100

// writeMisspelled names the arguments that are no parameters although their names are almost those of
// parameters which are absent. A schema that allows other members does not report them.
func writeMisspelled(b *strings.Builder, parameters, arguments wire.Value) {
	var absent []string
	for m := range parameters.Members() {
		if name := m.Key.Str(); !arguments.Get(name).Exists() && len(absent) < maxParameters {
			absent = append(absent, name)
		}
	}
	left := maxViolations
	for m := range arguments.Members() {
		name := m.Key.Str()
		if left == 0 {
			return
		}
		if parameters.Get(name).Exists() {
			continue
		}
		left--
		if near := plaintext.Nearest(name, absent); near != "" {
			fmt.Fprintf(b, "- $ has %q: did you mean %q?\n", name, near)
		}
	}
}
