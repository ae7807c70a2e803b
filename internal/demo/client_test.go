package demo

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const legacyRevision = "2025-11-25"

// eras are the revisions that the clients of the tests request.
var eras = map[string]string{"legacy": legacyRevision, "modern": firstModern}

// find returns one server of a new set.
func find(t *testing.T, name string) Server {
	t.Helper()
	for _, s := range Servers() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no demo server %q", name)
	return Server{}
}

// connect starts a session of s with the SDK's client, and ends it with the test.
func connect(t *testing.T, s Server, revision string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	// Not the test's context: it ends before cleanups run.
	in, out, wait := s.Start(context.Background())
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connecting to %s: %v", s.Name, err)
	}
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Errorf("negotiated revision %s, want %s", got, revision)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("closing the session: %v", err)
		}
		if err := wait(); err != nil {
			t.Errorf("the server's session ended with %v", err)
		}
	})
	return session
}

// call makes a tool call that must not fail as a request.
func call(t *testing.T, session *mcp.ClientSession, params *mcp.CallToolParams) *mcp.CallToolResult {
	t.Helper()
	res, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatalf("calling %s: %v", params.Name, err)
	}
	return res
}

// text returns the text of block i of a result.
func text(t *testing.T, res *mcp.CallToolResult, i int) string {
	t.Helper()
	if i >= len(res.Content) {
		t.Fatalf("the result has %d blocks, want one at %d", len(res.Content), i)
	}
	block, ok := res.Content[i].(*mcp.TextContent)
	if !ok {
		t.Fatalf("block %d is %T, want text", i, res.Content[i])
	}
	return block.Text
}
