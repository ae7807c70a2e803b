package reload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/raw"
)

// within bounds every wait.
const within = 60 * time.Second

// echo calls the tool of an upstream by its public name and returns the name of the process that answered.
func echo(ctx context.Context, c *raw.Client, tool, text string) (who string, err error) {
	m, err := c.Call(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"text":%q}}`, tool, text))
	if err != nil {
		return "", err
	}
	var result struct {
		IsError bool
		Content []struct{ Text string }
	}
	if err := json.Unmarshal([]byte(m.Member("result")), &result); err != nil || len(result.Content) != 1 || result.IsError {
		return "", fmt.Errorf("unexpected result %.300s", m.Text)
	}
	who, own := strings.CutSuffix(result.Content[0].Text, " "+text)
	if !own {
		return "", fmt.Errorf("the answer to %q belongs to another call: %q", text, result.Content[0].Text)
	}
	return who, nil
}

// explicit reports whether an error states its cause.
func explicit(err error) bool {
	var f *raw.Fault
	return errors.As(err, &f) && f.Message != "" && f.Code != 0
}

// listed returns the sorted names of all tools that a client sees.
func listed(ctx context.Context, c *raw.Client) ([]string, error) {
	var names []string
	for params := `{}`; ; {
		m, err := c.Call(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
		if err := json.Unmarshal([]byte(m.Member("result")), &page); err != nil {
			return nil, err
		}
		for _, tool := range page.Tools {
			names = append(names, tool.Name)
		}
		if page.NextCursor == "" {
			slices.Sort(names)
			return names, nil
		}
		params = fmt.Sprintf(`{"cursor":%q}`, page.NextCursor)
	}
}

// wantTools waits until clients of both eras see exactly these tools.
func wantTools(t *testing.T, url string, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	slices.Sort(want)
	for _, revision := range []string{raw.Legacy, raw.Modern} {
		c, err := raw.Open(ctx, url, revision)
		if err != nil {
			t.Fatal(err)
		}
		polltest.UntilNil(t, "the tools in "+revision, func() error {
			got, err := listed(ctx, c)
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("listed %q, want %q", got, want)
			}
			return err
		})
	}
}
