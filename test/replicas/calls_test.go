package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcpgateway/test/internal/raw"
)

// canAsk are the _meta members of a modern request whose client can be asked.
const canAsk = `"io.modelcontextprotocol/protocolVersion":"` + raw.Modern + `","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}`

// at returns a client that sends its requests to one replica.
func at(t *testing.T, url, revision string) *raw.Client {
	t.Helper()
	c, err := raw.Open(t.Context(), url, revision)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// parked is a call of a modern client that waits for the answer to a question.
type parked struct{ tool, state, question string }

// park begins a call that asks its client.
func park(ctx context.Context, t *testing.T, c *raw.Client, tool string) parked {
	t.Helper()
	answer, err := c.Send(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{},"_meta":{%s}}`, tool, canAsk))
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		RequestState  string
		InputRequests map[string]any
	}
	if err := json.Unmarshal([]byte(answer.Response.Member("result")), &result); err != nil || len(result.InputRequests) != 1 {
		t.Fatalf("the call does not ask: %s (%v)", answer.Response.Text, err)
	}
	p := parked{tool: tool, state: result.RequestState}
	for p.question = range result.InputRequests {
	}
	return p
}

// retry sends the call again with the state and an answer.
func retry(ctx context.Context, t *testing.T, c *raw.Client, p parked) raw.Answer {
	t.Helper()
	answer, err := c.Send(ctx, "tools/call", fmt.Sprintf(
		`{"name":%q,"arguments":{},"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{}}},"_meta":{%s}}`, p.tool, p.state, p.question, canAsk))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// accepted reports whether an answer is the result of a call whose user has accepted.
func accepted(a raw.Answer) bool { return strings.Contains(a.Response.Text, `"text":"accept"`) }

// wantFault checks that an answer is an error with this code whose text contains all of these.
func wantFault(t *testing.T, what string, a raw.Answer, code int, contains ...string) {
	t.Helper()
	f := a.Response.Fault()
	if f == nil || f.Code != code {
		t.Errorf("%s: HTTP %d %s, want the error %d", what, a.Status, a.Response.Text, code)
		return
	}
	for _, part := range contains {
		if !strings.Contains(a.Response.Text, part) {
			t.Errorf("%s: %s, want %q in it", what, a.Response.Text, part)
		}
	}
}
