package hosts

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"mcpgateway/test/internal/rig"
)

// hostTimeout bounds one command of a host.
const hostTimeout = 2 * time.Minute

func TestConnectRealHosts(t *testing.T) {
	for _, host := range []struct {
		name, file string
		list       []string // the command that lists its servers; packages run no scripts when they are installed, so that of Claude Code is in the package of the platform
		want       *regexp.Regexp
	}{
		{"claude-code", ".claude.json", []string{program(t, "@anthropic-ai/claude-code-linux-*/claude"), "mcp", "list"}, regexp.MustCompile(`gateway: \S+/gateway stdio -c \S+ - .*Connected`)},
		{"gemini", ".gemini/settings.json", rig.Node(t, "hosts/node_modules/@google/gemini-cli/bundle/gemini.js", "mcp", "list"), regexp.MustCompile(`gateway: .* \(stdio\) - Connected`)},
		// Codex does not connect to list its servers.
		{"codex", ".codex/config.toml", rig.Node(t, "hosts/node_modules/@openai/codex/bin/codex.js", "mcp", "list"), regexp.MustCompile(`(?m)^gateway +\S+/gateway +stdio -c \S+ .*enabled`)},
	} {
		t.Run(host.name, func(t *testing.T) {
			home := t.TempDir()
			config := filepath.Join(home, "gateway.yaml")
			fixture, err := json.Marshal(rig.FixtureCommand(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config, []byte(`{"upstreams": {"fixture": {"command": `+string(fixture[1:len(fixture)-1])+`}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			runIn(t, home, rig.Binary(t), "connect", host.name, "-c", config, "--yes")
			if out := runIn(t, home, host.list...); !host.want.Match(out) {
				t.Errorf("%s lists\n%s\nwant a match of %s", host.name, out, host.want)
			}
			runIn(t, home, rig.Binary(t), "disconnect", host.name, "--yes")
			data, err := os.ReadFile(filepath.Join(home, host.file))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if regexp.MustCompile(`gateway`).Match(data) {
				t.Errorf("after disconnect %s has\n%s", host.file, data)
			}
		})
	}
}

// runIn runs a command of a user with a home folder, and returns its output.
func runIn(t *testing.T, home string, command ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hostTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = home
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "NO_COLOR=1",
		"GEMINI_CLI_TRUST_WORKSPACE=true",                                     // Gemini CLI starts servers only in trusted folders
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", // there is no network
	}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
	return out
}
