package main

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"mcpgateway/internal/console"
)

// onTerminal returns the lines that do prints on a new terminal, which has 80 columns. The terminal sends the end of its
// input.
func onTerminal(t *testing.T, do func(inside *os.File)) []string {
	t.Helper()
	terminal, inside := openTerminal(t)
	if _, err := terminal.WriteString("\x04"); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		var all []byte
		p := make([]byte, 4096)
		for {
			n, err := terminal.Read(p)
			all = append(all, p[:n]...)
			if err != nil { // EIO after inside is closed
				read <- string(all)
				return
			}
		}
	}()
	do(inside)
	inside.Close()
	return terminalLines(<-read)
}

// terminalLines returns the lines that were printed on a terminal, without its escapes.
func terminalLines(text string) []string {
	return strings.FieldsFunc(escapes.ReplaceAllString(text, ""), func(r rune) bool { return r == '\r' || r == '\n' })
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// Messages that are wider than a terminal end their lines between words.
func TestMessagesEndBetweenWords(t *testing.T) {
	got := onTerminal(t, func(inside *os.File) {
		if status := run([]string{"add"}, strings.NewReader(""), inside, inside); status != exitUsage {
			t.Errorf("exit status %d", status)
		}
	})
	want := []string{
		"gateway: add needs a name, and a command or a URL: gateway add NAME -- COMMAND,",
		"  or gateway add NAME URL", "Run 'gateway add --help' for usage.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// Someone who starts stdio in a terminal learns that it is for hosts.
func TestStdioOnATerminal(t *testing.T) {
	file := t.TempDir() + "/gateway.yaml"
	if err := os.WriteFile(file, []byte("upstreams: {a: {command: cat, disabled: true}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := onTerminal(t, func(inside *os.File) {
		if status := run([]string{"stdio", "-c", file, "--log-level", "error"}, inside, inside, inside); status != exitDone {
			t.Errorf("exit status %d", status)
		}
	})
	want := []string{
		"note: stdio is for hosts, which start it and send messages of MCP to its",
		`  standard input; "gateway connect HOST" makes a host do so. Ctrl-D ends it.`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// A gateway that runs in a terminal has one line for the start of each upstream, although the terminal gets the log too. The
// levels of the log have colors, unless NO_COLOR is set.
func TestRunOnATerminal(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/empty", 0o700); err != nil {
		t.Fatal(err)
	}
	const file = "upstreams:\n  up-here: {command: gateway, args: [stdio, --log-level, error], cwd: empty}\n  up-gone: {command: /no/such/program}\n" +
		"telemetry: {audit: {sync: true}} # a warning\n"
	if err := os.WriteFile(dir+"/gateway.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, noColor := range []string{"", "1"} {
		terminal, inside := openTerminal(t)
		cmd := &exec.Cmd{
			Path: self, Args: []string{"gateway", "run", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, Dir: dir,
			Env:   append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/.config", "XDG_STATE_HOME="+dir+"/.state", "TERM=xterm", "NO_COLOR="+noColor),
			Stdin: inside, Stdout: inside, Stderr: inside,
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		inside.Close()
		said, read := &lines{}, make(chan struct{})
		go func() {
			_, _ = io.Copy(said, terminal) // until EIO, when the gateway has ended
			close(read)
		}()
		said.wait(t, "legacy 2025-11-25")
		said.wait(t, "there is no file")
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
		<-read
		text := said.String()
		for _, level := range []string{"\x1b[34mINFO\x1b[0m", "\x1b[33mWARN\x1b[0m"} {
			if noColor == "" && !strings.Contains(text, "  "+level+"  ") {
				t.Errorf("%q is missing in\n%q", level, text)
			}
		}
		if noColor != "" && colors.MatchString(text) {
			t.Errorf("with NO_COLOR there are colors in\n%q", text)
		}
		starts := map[string]int{}
		for _, line := range terminalLines(text) {
			if w := console.Width(line); w > helpColumns && !strings.Contains(line, `"/`) { // paths cannot be broken
				t.Errorf("%d columns: %s", w, line)
			}
			for _, name := range []string{"up-here", "up-gone", "the gateway starts", "upstreams have started"} {
				if strings.Contains(line, name) && !strings.HasPrefix(line, "Serving ") && !strings.HasPrefix(line, "waiting for ") {
					starts[name]++
				}
			}
		}
		if want := (map[string]int{"up-here": 1, "up-gone": 1}); !maps.Equal(starts, want) {
			t.Errorf("%v lines have the start of the gateway and of upstreams, want %v, in\n%s", starts, want, text)
		}
	}
}

var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Each verb's messages, results and errors fit a terminal of 80 columns, except for words that are wider themselves.
func TestMessagesFitTheTerminal(t *testing.T) {
	home, err := os.MkdirTemp("", "w") // shorter than t.TempDir: an entry of a host has the path on a line with other words
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home+"/.config")
	t.Setenv("XDG_STATE_HOME", home+"/.local/state")
	for _, dir := range []string{"demo", "own"} {
		if err := os.Mkdir(home+"/"+dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const (
		long     = "a-server-whose-name-is-long"
		longPath = "a-folder-whose-name-is-long/another-folder-in-it/gateway.yaml"
	)
	for name, text := range map[string]string{
		".claude.json":    `{"mcpServers": {"files": {"command": "cat"}}}`,
		"own/bad.yaml":    "upstreamz: {}\nlisten: [1, 2]\n",
		"own/pinned.yaml": "upstreams: {a: {command: cat, pin: true, disabled: true}, b: {command: cat, disabled: true}}\n",
		"own/user.yaml":   "upstreams: {tickets: {url: 'http://127.0.0.1:1/mcp', auth: {kind: user}}}\n",
		"own/down.yaml":   "upstreams: {" + long + ": {command: no-program-of-this-name}, other: {url: 'http://127.0.0.1:1/mcp'}}\n",
		"own/mcp.json":    `{"mcpServers": {"` + long + `": {"command": "cat", "env": {"A_TOKEN": "x"}}, "A Name Of Words": {"url": "http://127.0.0.1:1/${INPUT}"}}}`,
	} {
		if err := os.WriteFile(home+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tried := map[string]bool{}
	for _, dir := range []struct {
		name     string
		commands []string
	}{
		{"demo", []string{
			"lst", "check", "check --ofline", "check nofile.yaml", "list", "list tols", "list tools --as x",
			"call", "call cafe__menu", "call cafe__mneu", "call clock__now a=b", "call clock__now --arg zone",
			"explain clock__now", "explain clock__nwo", "explain cafe__menu --as alice,group=analyst",
			"grants", "login nope", "logout nope", "pin", "pin clock", "key", "key --id x", "version", "schema --nothing",
			"status", "reload", "reload -c gateway.yaml", "status --url http://127.0.0.1:1", "health --url http://127.0.0.1:1",
			"add", "add x foo", "add 'bad", "remove x", "stdio -c nofile.yaml", "run -c nofile.yaml", "run --listen foo", "completion nosuchshell", "help nothing",
		}},
		{"own", []string{
			"init --yes", "init", "init " + longPath, "init " + longPath + " --force", "init " + longPath + " --force --import",
			"add x -c " + longPath + " -- cat", "add x --replace -c " + longPath + " --env A_TOKEN=x -- cat", "remove x -c " + longPath,
			"import --merge mcp.json -c " + longPath, "import --merge mcp.json -c " + longPath, "import mcp.json -o new-" + longPath,
			"add files -- npx -y @modelcontextprotocol/server-filesystem /a/folder/with/a/long/name",
			"add files -- npx", "add search https://mcp.example.com/mcp --header Authorization:secret-value",
			"add tickets https://mcp.example.com/mcp --oauth", "add x htp://foo", "remove fils", "remove search", "remove search",
			"check --offline", "check -c bad.yaml", "run -c bad.yaml", "stdio -c bad.yaml", "check -c down.yaml", "list -c down.yaml",
			"call -c down.yaml " + long + "__tool", "explain -c down.yaml " + long + "__tool",
			"pin b -c pinned.yaml", "pin c -c pinned.yaml", "login tickets -c user.yaml --timeout 5s", "logout tickets -c user.yaml", "grants -c user.yaml",
			"import mcp.json -o imported.yaml --env imported.env", "import mcp.json -o imported.yaml", "import --merge mcp.json", "import --merge mcp.json",
			"connect", "connect curser", "connect claude-desktop --http http://127.0.0.1:8080/mcp", "connect cursor --yes", "connect cursor --yes",
			"connect cursor --print", "connect codex --yes", "connect zed --print --http http://127.0.0.1:8080/mcp",
			"disconnect cursor --yes", "disconnect cursor --yes", "disconnect curser",
		}},
	} {
		t.Chdir(home + "/" + dir.name)
		for _, command := range dir.commands {
			args := strings.Fields(command)
			tried[args[0]] = true
			for _, line := range onTerminal(t, func(inside *os.File) { run(args, strings.NewReader(""), inside, inside) }) {
				if w := console.Width(line); w > helpColumns && !oneWord(line) {
					t.Errorf("gateway %s: %d columns: %s", command, w, line)
				}
			}
		}
	}
	eachVerb(newRoot(), func(cmd *cobra.Command) {
		if cmd.HasParent() && !cmd.Parent().HasParent() && !cmd.Hidden && !tried[cmd.Name()] {
			t.Errorf("%s is not tried", cmd.CommandPath())
		}
	})
}

// health prints what is down so that it fits the terminal, too.
func TestHealthFitsTheTerminal(t *testing.T) {
	const down = "upstream a-server-whose-name-is-long is down since 2026-01-02T03:04:05Z: exit status 7"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"ready","down":["`+down+`"],"failing":["`+down+`"]}`)
	}))
	defer server.Close()
	lines := onTerminal(t, func(inside *os.File) {
		if status := run([]string{"health", "--url", server.URL}, strings.NewReader(""), inside, inside); status != exitDone {
			t.Errorf("exit status %d", status)
		}
	})
	for _, line := range lines {
		if w := console.Width(line); w > helpColumns {
			t.Errorf("%d columns: %s", w, line)
		}
	}
	if text := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); strings.Count(text, down) != 2 {
		t.Error(text)
	}
}

// oneWord reports whether a line consists of a word that cannot be broken.
func oneWord(line string) bool { return len(strings.Fields(line)) == 1 }
