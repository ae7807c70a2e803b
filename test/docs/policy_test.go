package docs

import (
	"regexp"
	"strings"
	"testing"
)

// TestPolicyConditions compiles the conditions in the tables of docs/policy.md.
func TestPolicyConditions(t *testing.T) {
	row := regexp.MustCompile("^\\| `(.+?)` \\|")
	inTable, n := false, 0
	for _, l := range documents(t)["docs/policy.md"].prose {
		if strings.HasPrefix(l.text, "| condition |") {
			inTable = true
		}
		m := row.FindStringSubmatch(l.text)
		if !strings.HasPrefix(l.text, "|") {
			inTable = false
		}
		if inTable && m != nil {
			n++
			t.Run(l.place, func(t *testing.T) { condition(t, block{text: strings.ReplaceAll(m[1], `\|`, "|")}) })
		}
	}
	if n < 5 {
		t.Errorf("found only %d conditions", n)
	}
}
