package metatool

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/search"
	"mcpgateway/internal/wire"
)

const (
	maxSummary   = 240 // bytes of a description in results
	maxUpstreams = 50  // upstreams that an answer names
)

// search answers search_tools.
func (in *invocation) search(ctx context.Context) call.Result {
	q, ignored, wrong := readQuery(in.args)
	if wrong != "" {
		return mistake("%s", wrong)
	}
	index := in.view.ToolIndex()
	if names := upstreamsOf(in.view); q.Upstream != "" && !slices.Contains(names, q.Upstream) {
		return mistake("There is no server %q here. These have tools: %s.", plaintext.Clip(q.Upstream, maxNamed), listed(names))
	}
	if called := in.tools.memory.of(in.call.Principal.Key()); called != nil {
		q.Prior = func(d *search.Doc) float64 { return called[d.Name()] }
	}
	if in.tools.Nearest != nil {
		q.Nearest = in.tools.Nearest(ctx, index.Index, q.Text)
	}
	page := index.Search(q)
	var text strings.Builder
	in.heading(&text, &q, &page)
	tools := wire.Raw{'['}
	for _, h := range page.Hits {
		f := in.summarize(index.Tool(h.Index), h.Score)
		text.WriteString(f.line())
		tools = append(comma(tools), f.object()...)
	}
	in.footing(&text, &page, ignored)
	structured := wire.SetMember(wire.Raw(`{}`), "tools", append(tools, ']'))
	structured = wire.SetMember(structured, "total", wire.Raw(strconv.Itoa(page.Total)))
	if page.Next > 0 {
		structured = wire.SetMember(structured, "next_offset", wire.Raw(strconv.Itoa(page.Next)))
	}
	return call.Result{Raw: wire.SetMember(textResult(strings.TrimSuffix(text.String(), "\n")), "structuredContent", structured)}
}

// heading writes how many tools were found, and what to do if none were.
func (in *invocation) heading(b *strings.Builder, q *search.Query, page *search.Page) {
	switch asked := plaintext.Clip(q.Text, maxNamed); {
	case page.Total > 0 && len(page.Hits) == 0:
		fmt.Fprintf(b, "There are only %d results.\n", page.Total)
	case page.All && asked == "":
		fmt.Fprintf(b, "%d of %d tools:\n", len(page.Hits), page.Total)
	case page.All:
		fmt.Fprintf(b, "%q has no words to search for. %d of %d tools:\n", asked, len(page.Hits), page.Total)
	case page.Total > 0:
		fmt.Fprintf(b, "%d of %d tools for %q, best first:\n", len(page.Hits), page.Total, asked)
	default:
		fmt.Fprintf(b, "No tool was found for %q. Use other or fewer words: an action and its object.", asked)
		if q.Upstream+q.Text != "" && (q.Upstream != "" || q.True|q.False != 0) {
			b.WriteString(" Or search without `upstream` and `annotations`.")
		}
		if names := upstreamsOf(in.view); len(names) > 0 {
			fmt.Fprintf(b, " These servers have tools: %s.", listed(names))
		}
		b.WriteByte('\n')
	}
}

// footing writes what the model may do next.
func (in *invocation) footing(b *strings.Builder, page *search.Page, ignored []string) {
	if page.Next > 0 {
		fmt.Fprintf(b, "More with offset %d.\n", page.Next)
	}
	if len(page.Hits) > 0 && !in.splits() {
		fmt.Fprintf(b, "Call one with %s; %s has their whole definitions.\n", CallTool, DescribeTools)
	}
	if len(ignored) > 0 {
		fmt.Fprintf(b, "Ignored, because %s does not know them: %s.\n", SearchTools, strings.Join(quoted(ignored, "`"), ", "))
	}
	if down := in.view.Unavailable(); len(down) > 0 {
		var names []string
		for _, u := range down {
			names = append(names, u.Upstream)
		}
		fmt.Fprintf(b, "Tools of these servers may be missing, since they do not answer now: %s.\n", listed(names))
	}
}

// upstreamsOf returns the names of the upstreams that have tools in a view.
func upstreamsOf(v *catalog.View) []string {
	var names []string
	for _, e := range v.Tools() { // tools of an upstream are next to each other
		if name := e.Upstream(); name != "" && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	return names
}

// listed joins names, within a bound.
func listed(names []string) string {
	if len(names) > maxUpstreams {
		return strings.Join(names[:maxUpstreams], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// summary is one result of a search.
type summary struct {
	name, description, upstream, parameters string
	effect                                  effect
	callWith                                string // "" if one tool calls all
	score                                   float64
}

// summarize returns the entry of a tool in the results of a search.
func (in *invocation) summarize(e *catalog.Entry, score float64) *summary {
	whole := e.Ordinary().Raw // also what the profile leaves out of lists
	v := wire.ValueOf(whole)
	s := &summary{
		name: e.Public, description: summaryOf(v), upstream: e.Upstream(), parameters: Signature(v.Get("inputSchema")),
		effect: effectOf(whole), score: score,
	}
	if in.splits() {
		s.callWith = s.effect.callerOf()
	}
	return s
}

// summaryOf returns the beginning of a tool's description, or its title, on one line.
func summaryOf(definition wire.Value) string {
	text := oneLine(definition.Get("description").Str())
	if text == "" {
		text = oneLine(definition.Get("title").Str())
	}
	if len(text) <= maxSummary {
		return text
	}
	cut := plaintext.Truncate(text, maxSummary)
	if i := strings.LastIndex(cut, ". "); i > maxSummary/2 {
		return cut[:i+1] + " …"
	}
	if i := strings.LastIndexByte(cut, ' '); i > 0 {
		cut = cut[:i]
	}
	return cut + " …"
}

// line returns the result as one line of text.
func (s *summary) line() string {
	var b strings.Builder
	b.WriteString("- ")
	b.WriteString(s.name)
	b.WriteString(s.parameters)
	if s.description != "" {
		b.WriteString(": ")
		b.WriteString(s.description)
	}
	b.WriteString(" [")
	if s.upstream != "" {
		b.WriteString(s.upstream)
		b.WriteString("; ")
	}
	b.WriteString(s.effect.words())
	if s.callWith != "" {
		b.WriteString("; ")
		b.WriteString(s.callWith)
	}
	b.WriteString("]\n")
	return b.String()
}

// object returns the result as JSON.
func (s *summary) object() wire.Raw {
	b := wire.AppendString(wire.Raw(`{"name":`), s.name)
	b = wire.AppendString(append(b, `,"description":`...), s.description)
	b = wire.AppendString(append(b, `,"upstream":`...), s.upstream)
	b = append(b, `,"score":`...)
	b = strconv.AppendFloat(b, math.Round(s.score*1000)/1000, 'f', -1, 64)
	b = wire.AppendString(append(b, `,"parameters":`...), s.parameters)
	if s.callWith != "" {
		b = wire.AppendString(append(b, `,"call_with":`...), s.callWith)
	}
	return append(b, '}')
}
