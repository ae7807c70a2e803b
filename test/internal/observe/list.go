package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mcpgateway/test/internal/raw"
)

// Listed is a merged list of tools: all pages.
type Listed struct {
	Tools       []string
	Unavailable map[string]string // reason by upstream, the same on every page
}

// List returns the merged list of tools that a client sees.
func List(ctx context.Context, c *raw.Client) (Listed, error) {
	var out Listed
	for params := `{}`; ; {
		m, err := c.Call(ctx, "tools/list", params)
		if err != nil {
			return out, err
		}
		var page struct {
			Tools []struct{ Name string }
			Next  string `json:"nextCursor"`
			Meta  struct {
				Unavailable []struct{ Upstream, Since, Reason string } `json:"mcpgateway/unavailable"`
			} `json:"_meta"`
		}
		if err := json.Unmarshal([]byte(m.Member("result")), &page); err != nil {
			return out, err
		}
		for _, tool := range page.Tools {
			out.Tools = append(out.Tools, tool.Name)
		}
		out.Unavailable = map[string]string{}
		for _, missing := range page.Meta.Unavailable {
			if _, err := time.Parse(time.RFC3339, missing.Since); err != nil {
				return out, fmt.Errorf("%s is unavailable since %q: %w", missing.Upstream, missing.Since, err)
			}
			out.Unavailable[missing.Upstream] = missing.Reason
		}
		if page.Next == "" {
			return out, nil
		}
		params = fmt.Sprintf(`{"cursor":%q}`, page.Next)
	}
}

// Of returns the tools of one upstream in the order of the list.
func (l Listed) Of(upstream string) []string {
	var out []string
	for _, tool := range l.Tools {
		if native, ok := strings.CutPrefix(tool, upstream+"__"); ok {
			out = append(out, native)
		}
	}
	return out
}
