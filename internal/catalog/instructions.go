package catalog

import (
	"cmp"
	"slices"
	"strings"

	"mcpgateway/internal/plaintext"
)

const (
	maxInstructions = 16 << 10 // bytes, without the headings
	truncationMark  = "\n[… shortened by the gateway]"
)

// mergeInstructions joins the instructions of the parts, each under a heading with the
// prefix of the part. If the result is too long, the longest ones are truncated. The
// instructions of a single upstream without a prefix are returned without a heading.
func mergeInstructions(parts []*Part) string {
	if len(parts) == 1 && parts[0].naming.Prefix() == "" {
		return parts[0].source.Instructions
	}
	type text struct {
		name, body string
		share      int
	}
	var texts []*text
	for _, p := range parts {
		if body := strings.TrimSpace(p.source.Instructions); body != "" {
			texts = append(texts, &text{name: cmp.Or(p.naming.Prefix(), p.Upstream()), body: body})
		}
	}
	// Short instructions leave their remaining space to longer ones.
	byLength := slices.SortedStableFunc(slices.Values(texts), func(a, b *text) int {
		return cmp.Compare(len(a.body), len(b.body))
	})
	left := maxInstructions
	for i, t := range byLength {
		t.share = min(len(t.body), left/(len(byLength)-i))
		left -= t.share
	}
	var b strings.Builder
	for _, t := range texts {
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("# ")
		b.WriteString(t.name)
		b.WriteString("\n\n")
		b.WriteString(truncate(t.body, t.share))
	}
	return b.String()
}

// truncate returns at most n bytes of text, with a mark at the end if something is missing.
func truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return plaintext.Truncate(text, n-len(truncationMark)) + truncationMark
}
