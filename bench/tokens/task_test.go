package tokens

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tiktoken-go/tokenizer"

	"mcpgateway/internal/metatool"
	"mcpgateway/internal/script"
	"mcpgateway/internal/wire"
)

const scriptsPage = "../../docs/scripts.md"

// taskScript does the task in one call: the open questions for Ann in the minutes of nine meetings.
const taskScript = `names = [l.removeprefix("[FILE] ") for l in call("files__list_directory", {"path": "DIR"})["content"].splitlines()]
notes = parallel([("files__read_text_file", {"path": "DIR/" + n}) for n in names])
for name, note in zip(names, notes):
    for line in note["content"].splitlines():
        if line.startswith("- [ ] Ann:"):
            print(name, line[11:])
`

// TestTask compares the table of a recorded task with what a model writes and reads: by direct
// calls of a file server, and by a script.
func TestTask(t *testing.T) {
	folder := notes(t)
	session := filesystem(t, folder)
	d := &direct{t: t, session: session}
	listed := d.call("list_directory", map[string]any{"path": folder})
	for line := range strings.Lines(listed) {
		d.call("read_text_file", map[string]any{"path": filepath.Join(folder, strings.TrimSpace(strings.TrimPrefix(line, "[FILE] ")))})
	}
	if d.calls != 10 {
		t.Fatalf("the task has %d calls, want 10", d.calls)
	}

	source := strings.ReplaceAll(taskScript, "DIR", folder)
	p, err := script.Compile("script", source)
	if err != nil {
		t.Fatal(err)
	}
	limits := script.Limits{Steps: 1_000_000, Calls: 100, Parallel: 8, Time: time.Minute, Output: 64 << 10}
	result, err := script.NewRun(script.Options{Host: &fileHost{session}, Limits: limits, Clock: metatool.Clock{}}).Do(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(result.Output, "\n"); n != 3 || !strings.Contains(result.Output, "minutes-4.md ask the landlord") {
		t.Errorf("the script printed %q", result.Output)
	}
	arguments, _ := json.Marshal(map[string]string{"script": source})

	// The path of the folder differs from run to run.
	clean := strings.NewReplacer(folder, "/notes").Replace
	var b strings.Builder
	b.WriteString("| ten calls of a file server | turns | the model writes | the model reads | together | share |\n|---|---|---|---|---|---|\n")
	all := tokensIn(t, clean(d.wrote)) + tokensIn(t, clean(d.read))
	for _, r := range []struct {
		what        string
		turns       int
		wrote, read string
	}{{"direct calls", 10, d.wrote, d.read}, {"`run_script`", 1, "run_script" + string(arguments), result.Output}} {
		wrote, read := clean(r.wrote), clean(r.read)
		n := tokensIn(t, wrote) + tokensIn(t, read)
		fmt.Fprintf(&b, "| %s | %d | %s bytes, %s tokens | %s bytes, %s tokens | %s tokens | %.1f %% |\n", r.what, r.turns,
			grouped(len(wrote)), grouped(tokensIn(t, wrote)), grouped(len(read)), grouped(tokensIn(t, read)), grouped(n), 100*float64(n)/float64(all))
	}
	compareTable(t, scriptsPage, "task", b.String())
}

// notes writes the minutes of nine meetings.
func notes(t *testing.T) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	questions := map[int]string{2: "order chairs for the new room", 4: "ask the landlord about the roof", 9: "send the figures of October"}
	for n := 1; n <= 9; n++ {
		var b strings.Builder
		fmt.Fprintf(&b, "# Minutes %d\n\nPresent: Ann, Bob, Carla.\n\n", n)
		for topic := 1; topic <= 8; topic++ {
			fmt.Fprintf(&b, "## Topic %d\n\nBob reports on what has happened since meeting %d. The budget of the topic is %d euros, of which %d are spent. "+
				"Carla asks for a decision before the end of the month. The group agrees to wait for the offer and to decide by mail.\n\n", topic, n-1, 1000*topic+n, 100*topic+n)
		}
		b.WriteString("## Open\n\n- [ ] Bob: write the minutes\n")
		if q := questions[n]; q != "" {
			b.WriteString("- [ ] Ann: " + q + "\n")
		}
		b.WriteString("- [x] Ann: book the room\n")
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("minutes-%d.md", n)), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// filesystem starts the file server that test/install.sh installs.
func filesystem(t *testing.T, folder string) *mcp.ClientSession {
	t.Helper()
	modules, err := filepath.Abs("../../test/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(modules, ".bin", "node"), filepath.Join(modules, "@modelcontextprotocol/server-filesystem/dist/index.js"), folder)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "tokens", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// direct records what a model writes and reads with direct calls.
type direct struct {
	t           *testing.T
	session     *mcp.ClientSession
	calls       int
	wrote, read string
}

func (d *direct) call(tool string, arguments map[string]any) string {
	d.t.Helper()
	d.calls++
	written, _ := json.Marshal(arguments)
	d.wrote += "files__" + tool + string(written) + "\n"
	result, err := d.session.CallTool(d.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil || result.IsError {
		d.t.Fatalf("%s: %v, %v", tool, result, err)
	}
	text := result.Content[0].(*mcp.TextContent).Text
	d.read += text + "\n"
	return text
}

// fileHost lets a script call the file server.
type fileHost struct{ session *mcp.ClientSession }

func (h *fileHost) Call(ctx context.Context, tool string, arguments wire.Raw) (wire.Raw, error) {
	result, err := h.session.CallTool(ctx, &mcp.CallToolParams{Name: strings.TrimPrefix(tool, "files__"), Arguments: json.RawMessage(arguments)})
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func (h *fileHost) Search(context.Context, wire.Raw) (wire.Raw, error) { return nil, nil }

func (h *fileHost) Describe(context.Context, []string) ([]wire.Raw, error) { return nil, nil }

// tokensIn returns the number of tokens of a text.
func tokensIn(t *testing.T, text string) int {
	t.Helper()
	encoding, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	n, err := encoding.Count(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// compareTable compares a table of a page with its text, or writes it with -update.
func compareTable(t *testing.T, page, name, table string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- tokens "+name+" -->\n", "<!-- /tokens "+name+" -->"
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, both := strings.Cut(rest, end)
	switch {
	case !ok || !both:
		t.Fatalf("%s has no table %s", page, name)
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case old != table:
		t.Errorf("%s: the table %s differs; -update writes it:\n%s", page, name, table)
	}
}
