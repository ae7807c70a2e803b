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

// mergeInstructions joins what the parts say about themselves, each under a
// heading with the prefix that the part's names carry. Where all together is
// too long, the longest are shortened. A single upstream without a prefix is
// quoted as it is.
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
	// The short ones leave what they do not need to the longer ones.
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

// shorten returns at most n bytes of text, with a mark at the end when
// something is missing.
func truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return plaintext.Truncate(text, n-len(truncationMark)) + truncationMark
}
