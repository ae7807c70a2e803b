package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/test/internal/rig"
)

// host is a host from npm, with the command line of its program and of its verb that adds a server.
type host struct {
	program []string
	file    string // below the home folder
	adds    [][]string
	want    string // what import makes of it, from upstreams on and without comments
}

// TestImport adds servers with the hosts' own verbs. gateway import reads every file without a remark, and has the servers
// as they were added.
func TestImport(t *testing.T) {
	const local = "files:\n    command: npx\n    args: [-y, server-files, --root=/data]\n    env:\n      TOKEN: ${FILES_TOKEN}\n"
	const remote = "search:\n    url: https://mcp.example.com/mcp\n    headers:\n      Authorization: Bearer ${SEARCH_AUTHORIZATION}\n"
	for name, h := range map[string]host{
		"claude": {
			program: []string{program(t, "@anthropic-ai/claude-code-*/claude")}, file: ".claude.json",
			adds: [][]string{
				{"mcp", "add", "--scope", "user", "files", "-e", "TOKEN=s3cret-1", "--", "npx", "-y", "server-files", "--root=/data"},
				{"mcp", "add", "--scope", "user", "--transport", "http", "search", "https://mcp.example.com/mcp", "--header", "Authorization: Bearer s3cret-2"},
				{"mcp", "add", "--scope", "user", "--transport", "sse", "events", "https://events.example.com/sse"},
				{"mcp", "add", "plain", "--", "server-plain"}, // of the project, which is this folder
			},
			want: local + remote + "events:\n    url: https://events.example.com/sse\n    transport: sse\nplain:\n    command: server-plain\n    cwd: HOME\n",
		},
		"codex": {
			program: []string{program(t, "@openai/codex-*/vendor/*/bin/codex", "@openai/codex-*/vendor/*/codex/codex")}, file: ".codex/config.toml",
			adds: [][]string{
				{"mcp", "add", "files", "--env", "TOKEN=s3cret-1", "--", "npx", "-y", "server-files", "--root=/data"},
				{"mcp", "add", "search", "--url", "https://mcp.example.com/mcp", "--bearer-token-env-var", "SEARCH_AUTHORIZATION"},
			},
			want: local + remote,
		},
		"gemini": {
			program: rig.Node(t, "hosts/node_modules/@google/gemini-cli/"+geminiMain(t)), file: ".gemini/settings.json",
			adds: [][]string{
				{"mcp", "add", "-s", "user", "-e", "TOKEN=s3cret-1", "files", "npx", "--", "-y", "server-files", "--root=/data"},
				{"mcp", "add", "-s", "user", "-t", "http", "-H", "Authorization: Bearer s3cret-2", "search", "https://mcp.example.com/mcp"},
				{"mcp", "add", "-s", "user", "-t", "sse", "events", "https://events.example.com/sse", "--include-tools", "a", "b"},
			},
			want: local + remote + "events:\n    url: https://events.example.com/sse\n    transport: sse\n    tools:\n      allow: [a, b]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			for _, add := range h.adds {
				run(t, home, append(h.program, add...)...)
			}
			stdout, stderr := run(t, home, rig.Binary(t), "import", filepath.Join(home, h.file), "--env", filepath.Join(home, "values.env"))
			if remarks, _, _ := strings.Cut(stderr, " imported."); strings.Contains(remarks, "\n") {
				t.Errorf("import has remarks:\n%s", stderr)
			}
			if got, want := upstreams(stdout), strings.ReplaceAll(h.want, "HOME", home); got != want {
				t.Errorf("import prints\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(stdout+stderr, "s3cret") {
				t.Errorf("a secret is shown:\n%s%s", stdout, stderr)
			}

			// Without the name of a file the same servers are found.
			run(t, home, rig.Binary(t), "init", "--import")
			run(t, home, rig.Binary(t), "remove", "files")
			if stdout, _ := run(t, home, rig.Binary(t), "import", "--merge"); !strings.HasPrefix(last(stdout, "Added"), "Added to gateway.yaml:\n  files\n") {
				t.Errorf("import --merge prints %s", stdout)
			}
		})
	}
}

// program returns the only file that matches one of the patterns below node_modules.
func program(t *testing.T, patterns ...string) string {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join("node_modules", pattern))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			path, err := filepath.Abs(found[0])
			if err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Fatalf("there is no %s below node_modules: run test/install.sh", strings.Join(patterns, " or "))
	return ""
}

// geminiMain is the script of Gemini CLI below its package.
func geminiMain(t *testing.T) string {
	t.Helper()
	path := program(t, "@google/gemini-cli/bundle/gemini.js", "@google/gemini-cli/dist/index.js")
	_, rest, _ := strings.Cut(filepath.ToSlash(path), "/gemini-cli/")
	return rest
}

// run runs a command with an empty home folder.
func run(t *testing.T, home string, command ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// upstreams is the configuration from the entries on, without comments and the indentation of the names.
func upstreams(text string) string {
	_, entries, _ := strings.Cut(text, "upstreams:\n")
	var b strings.Builder
	for line := range strings.Lines(entries) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			b.WriteString(strings.TrimPrefix(line, "  "))
		}
	}
	return strings.ReplaceAll(b.String(), "\n  ", "\n    ")
}

// last is a text from a word on.
func last(text, word string) string {
	if i := strings.Index(text, word); i >= 0 {
		return text[i:]
	}
	return ""
}
