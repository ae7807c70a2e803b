package metatool

import (
	"embed"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"mcpgateway/internal/call"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/results"
	"mcpgateway/internal/script"
	"mcpgateway/internal/wire"
)

// The names of the tools.
const (
	SearchTools         = "search_tools"
	DescribeTools       = "describe_tools"
	CallTool            = "call_tool"
	CallReadTool        = "call_read_tool"
	CallWriteTool       = "call_write_tool"
	CallDestructiveTool = "call_destructive_tool"
)

// Options say which own tools a profile has.
type Options struct {
	// Search adds search_tools, describe_tools, and a tool that calls others.
	Search bool
	// Split adds three tools that call others in place of one, by the annotations of the tools
	// that they call.
	Split bool
	// Results adds the tool that reads long results, and the template of their URIs.
	Results bool
	// Scripts adds run_script with these limits, unless it is nil.
	Scripts *script.Limits
	// Composites are tools that files define.
	Composites []*script.Composite
}

// Items returns the own tools of a profile.
func Items(o Options) []profile.OwnItem {
	var out []profile.OwnItem
	if o.Search {
		for _, raw := range o.definitions() {
			name := wire.ValueOf(raw).Get("name").Str()
			out = append(out, profile.OwnItem{Kind: call.Tool, Definition: raw, Meta: true, WholeView: name == SearchTools || name == DescribeTools})
		}
	}
	if o.Results {
		out = append(out, resultItems()...)
	}
	return append(out, o.scriptItems()...)
}

// Introduction introduces the tools that are not listed to the models of a profile, "" for a
// profile that lists all.
func Introduction(o Options) string {
	if !o.Search {
		return ""
	}
	by := CallTool
	if o.Split {
		by = CallReadTool + ", " + CallWriteTool + " or " + CallDestructiveTool
	}
	return "This server has more tools than it lists, of these servers (with the number of tools): " + profile.Upstreams + ". Find them with " +
		SearchTools + ", read their definitions with " + DescribeTools + ", and call them with " + by + "."
}

// caller describes a tool that calls others.
type caller struct {
	effect      effect
	name, title string
	which       string // the tools that it calls
	annotations string
}

// callers are the tools that call others in a split profile, and anyCaller is the one of other profiles.
var (
	callers = []caller{
		{reads, CallReadTool, "Call a tool that reads", "a tool that search_tools found and that only reads", `{"readOnlyHint":true,"destructiveHint":false,"openWorldHint":true}`},
		{writes, CallWriteTool, "Call a tool that writes", "a tool that search_tools found and that changes something without destroying anything", `{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":true}`},
		{destroys, CallDestructiveTool, "Call a tool that may destroy", "a tool that search_tools found and that may overwrite, remove or otherwise destroy something", `{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true}`},
	}
	anyCaller = caller{anyEffect, CallTool, "Call a tool", "any tool that search_tools found", `{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true}`}
)

//go:embed definitions/*.json
var definitions embed.FS

// definition returns the definition of a tool in compact form, with its placeholders replaced.
func definition(name string, placeholders ...string) wire.Raw {
	text, err := definitions.ReadFile("definitions/" + name + ".json")
	if err != nil {
		panic(err) // it is part of the binary
	}
	v := jsontext.Value(strings.NewReplacer(placeholders...).Replace(string(text)))
	if err := v.Compact(); err != nil {
		panic(err)
	}
	return wire.Raw(v)
}

// definitions returns the definitions of the tools.
func (o Options) definitions() []wire.Raw {
	all, by := []caller{anyCaller}, CallTool
	if o.Split {
		all, by = callers, "the tool that its result names in call_with"
	}
	out := []wire.Raw{definition(SearchTools, "{CALL}", by), definition(DescribeTools)}
	for _, c := range all {
		raw := definition(CallTool, "{WHICH}", c.which)
		raw = wire.SetMember(raw, "name", wire.String(c.name))
		raw = wire.SetMember(raw, "title", wire.String(c.title))
		out = append(out, wire.SetMember(raw, "annotations", wire.Raw(c.annotations)))
	}
	return out
}

// IsOwn reports whether one of the gateway's own tools may have a name.
func IsOwn(name string) bool { return isMeta(name) }

// isMeta reports whether a name is that of a tool which serves the use of others: such tools are
// neither found nor called by one another.
func isMeta(name string) bool {
	switch name {
	case results.ReadTool, RunScript, SearchTools, DescribeTools, CallTool, CallReadTool, CallWriteTool, CallDestructiveTool:
		return true
	}
	return false
}
