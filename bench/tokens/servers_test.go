package tokens

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/wire"
)

// server is an MCP server with the definitions of its tools.
type server struct {
	Name  string            `json:"name"`
	Tools []json.RawMessage `json:"tools"`
}

func (s *server) raw() []wire.Raw {
	out := make([]wire.Raw, len(s.Tools))
	for i, tool := range s.Tools {
		out[i] = wire.Raw(tool)
	}
	return out
}

// installed returns the tools of the npm servers that test/install.sh installs.
func installed(t *testing.T) []server {
	t.Helper()
	modules, err := filepath.Abs("../../test/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	var out []server
	for _, s := range []struct {
		name, script string
		args         []string
	}{
		{"everything", "@modelcontextprotocol/server-everything/dist/index.js", []string{"stdio"}},
		{"files", "@modelcontextprotocol/server-filesystem/dist/index.js", []string{folder}},
		{"memory", "@modelcontextprotocol/server-memory/dist/index.js", nil},
		{"thinking", "@modelcontextprotocol/server-sequential-thinking/dist/index.js", nil},
		{"browser", "@playwright/mcp/cli.js", []string{"--headless"}},
	} {
		command := exec.Command(filepath.Join(modules, ".bin", "node"), append([]string{filepath.Join(modules, s.script)}, s.args...)...)
		command.Env = append(os.Environ(), "MEMORY_FILE_PATH="+filepath.Join(folder, "memory.jsonl"))
		out = append(out, server{s.name, toolsOf(t, command)})
	}
	return out
}

// toolsOf starts a server and lists its tools.
func toolsOf(t *testing.T, command *exec.Cmd) []json.RawMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "tokens", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatalf("%v: %v", command.Args, err)
	}
	defer session.Close()
	var out []json.RawMessage
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			t.Fatalf("%v: %v", command.Args, err)
		}
		raw, err := json.Marshal(tool)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, raw)
	}
	return out
}

// gathered returns the tools that bench/search has gathered in a folder.
func gathered(t *testing.T, folder string) []server {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "definitions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out []server
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		out[i].Name = strings.ToLower(out[i].Name) // the gateway writes names of upstreams in lower case
	}
	return out
}
