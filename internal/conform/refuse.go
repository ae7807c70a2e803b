package conform

import (
	"strings"

	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// maxNamed is how many findings an error names.
const maxNamed = 5

// refuse puts an error in the place of a result. A tool has a result that says
// so, which models get to see; what was mended of the upstream's own answer stays
// beside it. sent is what the upstream sent: its _meta may say which task the
// result is of.
func (s Subject) refuse(v *Verdict, sent wire.Raw) {
	words := refusal(s.Mode, v)
	v.Refused = true
	if wire.MethodOf(s.Method).Shape != wire.ShapeToolResult {
		v.Err = wire.Errorf(wire.CodeInternal, "%s", words)
		return
	}
	rest := wire.ValueOf(v.Result)
	blocks := wire.Raw{'['}
	blocks = append(blocks, content.TextBlock(words)...)
	if at := rest.Get("structuredContent"); at.Exists() && !content.HasTextOf(rest.Get("content"), at) {
		v.Result = withText(v.Result, at)
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

// refusal words an error: what could not be mended, or in the strict mode
// everything.
func refusal(mode Mode, v *Verdict) string {
	var named []string
	left := v.More
	for _, f := range v.Findings {
		if mode == Repair && f.Mended || mode == Strict && f.advice() {
			continue
		}
		if len(named) == maxNamed {
			left++
			continue
		}
		named = append(named, f.String())
	}
	var b strings.Builder
	b.WriteString("the upstream's answer does not keep to the specification of MCP: ")
	b.WriteString(strings.Join(named, "; "))
	if left > 0 {
		b.WriteString("; and more")
	}
	return b.String()
}
