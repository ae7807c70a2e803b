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

// park begins a call of a modern client that waits for an answer, and returns its request state.
func park(ctx context.Context, t *testing.T, c *raw.Client) string {
	t.Helper()
	answer, err := c.Send(ctx, "tools/call", `{"name":"legacy__ask","arguments":{},"_meta":{`+canAsk+`}}`)
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ RequestState string }
	if err := json.Unmarshal([]byte(answer.Response.Member("result")), &result); err != nil || result.RequestState == "" {
		t.Fatalf("the call is not parked: %s (%v)", answer.Response.Text, err)
	}
	return result.RequestState
}

// retry sends the call again with the state and an answer.
func retry(ctx context.Context, t *testing.T, c *raw.Client, state string) raw.Answer {
	t.Helper()
	answer, err := c.Send(ctx, "tools/call", fmt.Sprintf(
		`{"name":"legacy__ask","arguments":{},"requestState":%q,"inputResponses":{"ask-1":{"action":"accept","content":{}}},"_meta":{%s}}`, state, canAsk))
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
