package conform

import (
	"strings"

	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// maxNamed is the number of violations that an error names.
const maxNamed = 5

// refuse replaces a result by an error. The result of a tool becomes one with isError, which
// models see, and keeps the repaired content of the upstream beside the error. sent is the
// original result: its _meta may name the task that the result belongs to.
func (s ResultChecker) refuse(v *Verdict, sent wire.Raw) {
	message := refusalMessage(s.Mode, v)
	v.Refused, v.Reason = true, message
	if wire.MethodOf(s.Method).Shape != wire.ShapeToolResult {
		v.Err = wire.Errorf(wire.CodeInternal, "%s", message)
		return
	}
	rest := wire.ValueOf(v.Result)
	blocks := wire.Raw{'['}
	blocks = append(blocks, content.TextBlock(message)...)
	if at := rest.Get("structuredContent"); at.Exists() && !content.HasTextOf(rest.Get("content"), at) {
		v.Result = addText(v.Result, at)
		rest = wire.ValueOf(v.Result)
	}
	for el := range rest.Get("content").Elements() {
		blocks = append(blocks, ',')
		blocks = append(blocks, el.Raw()...)
	}
	result := wire.SetMember(wire.Raw(`{}`), "content", append(blocks, ']'))
	result = wire.SetMember(result, "isError", wire.Raw("true"))
	if meta := wire.ValueOf(sent).Get("_meta"); meta.Kind() == '{' {
		result = wire.SetMember(result, "_meta", meta.Raw())
	}
	v.Result = result
}

// refusalMessage returns the message of the error. It names the violations that were not repaired,
// in the mode [Strict] all violations.
func refusalMessage(mode Mode, v *Verdict) string {
	var named []string
	left := v.More
	for _, f := range v.Violations {
		if mode == Repair && f.Repaired || mode == Strict && f.isAdvice() {
			continue
		}
		if len(named) == maxNamed {
			left++
			continue
		}
		named = append(named, f.String())
	}
	var b strings.Builder
	b.WriteString("the upstream's answer violates the MCP specification: ")
	b.WriteString(strings.Join(named, "; "))
	if left > 0 {
		b.WriteString("; and more")
	}
	return b.String()
}
