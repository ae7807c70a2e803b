package docs

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

// walkWithin bounds the walk through one document.
const walkWithin = 10 * time.Minute

// TestWalks runs the commands of each document from top to bottom.
func TestWalks(t *testing.T) {
	docs := documents(t)
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		doc := docs[name]
		if slices.ContainsFunc(doc.blocks, func(b block) bool { return b.kind == "sh" || b.kind == "console" || servers(b.text) != nil }) {
			t.Run(name, func(t *testing.T) { walk(t, doc) })
		}
	}
}

// serves matches a command that runs until it is stopped.
var serves = regexp.MustCompile(`^(?:exec )?(\S*/)?(gateway|go run \./cmd/gateway)(?: run)?((?:\s+-\S+(?:\s+[^-#&\s]\S*)?)*)\s*(?:&\s*)?(?:#.*)?$`)

// speaks matches a line that needs a running gateway.
var speaks = regexp.MustCompile(`(?:127\.0\.0\.1|localhost):(?:8080|9090)`)

// home matches the reader's home folder in documents.
var home = regexp.MustCompile(`/(?:home|Users)/me\b`)

// walker is the reader of a document.
type walker struct {
	t      *testing.T
	dir    string // for files of the test itself
	home   string
	script strings.Builder
	steps  []step
}

func walk(t *testing.T, doc document) {
	dir := t.TempDir()
	w := &walker{t: t, dir: dir, home: filepath.Join(dir, "home")}
	start := filepath.Join(dir, "start")
	must(t, os.CopyFS(w.home, os.DirFS("testdata/home")))
	must(t, os.Mkdir(start, 0o755))
	w.shims()
	if strings.Contains(doc.path, "/") {
		must(t, os.Mkdir(filepath.Join(w.home, "bin"), 0o755))
		must(t, os.Symlink(rig.Binary(t), filepath.Join(w.home, "bin", "gateway")))
	} else {
		copyRepository(t, start)
	}
	w.script.WriteString(prelude)
	for _, b := range doc.blocks {
		b.text = home.ReplaceAllString(b.text, w.home)
		switch {
		case b.kind == "sh" || b.kind == "console":
			for _, s := range steps(t, b) {
				w.command(s)
			}
		case b.kind == "yaml" && strings.HasSuffix(b.rest, ".yaml") || b.kind == "json" && b.rest != "":
			w.write(b)
		case b.kind == "json" && servers(b.text) != nil:
			w.connect(b)
		}
	}
	w.run(start)
}

// prelude defines the functions of the walk's script. The script stops a serving gateway as a reader does, and waits for its end.
const prelude = `
server=
leave() { [ -z "$server" ] || { kill "$server"; wait "$server" || :; server=; }; }
serve() {
  leave
  "$@" >>"$WALK/served" 2>&1 </dev/null &
  server=$!
  until curl -sf -o "$WALK/ready" http://127.0.0.1:9090/readyz; do
    kill -0 "$server" 2>/dev/null || { server=; cat "$WALK/served"; return 1; }
    sleep 0.1
  done
}
try() { # what the demo says to try from a shell; script may write it after the gateway is ready
  until grep -q "tools/list\"}'" "$WALK/served"; do kill -0 "$server" || return 1; sleep 0.1; done
  tr -d '\r' <"$WALK/served" | awk '/^  curl /{on = 1} on {print} !/\\$/{on = 0}' >"$WALK/try" && sh "$WALK/try" | grep '"tools":\[{'
}
attend() { [ -n "$server" ] || serve gateway; }
trap leave EXIT
`

// command adds a line of a block to the script.
func (w *walker) command(s step) {
	if check, is := runElsewhere(s.text); is {
		check(w.t, s.line)
		return
	}
	if m := serves.FindStringSubmatch(s.text); m != nil {
		program := m[1] + m[2]
		if strings.HasPrefix(m[2], "go run") { // go run would not forward a signal
			// The gateway prints how to use it on a terminal only; script makes one.
			s.text = `go build -o "$WALK/run" ./cmd/gateway && serve script -qefc "$WALK/run run` + m[3] + `" /dev/null && try`
		} else {
			s.text = "serve " + program + " run" + m[3]
		}
		s.compared = false
	} else if speaks.MatchString(s.text) {
		s.text = "attend\n" + s.text
	}
	w.step(s)
}

// step adds a command to the script, with its expected exit status.
func (w *walker) step(s step) {
	n := len(w.steps)
	w.steps = append(w.steps, s)
	fmt.Fprintf(&w.script, "echo %d >\"$WALK/at\"\n{\n%s\n} >\"$WALK/out.%d\" 2>&1 </dev/null\nstatus=$?\n[ $status = %d ] || exit 1\n", n, s.text, n, s.status)
}

// write adds a command that writes a block to a file.
func (w *walker) write(b block) {
	source := filepath.Join(w.dir, "block-"+strings.Map(func(r rune) rune {
		if strings.ContainsRune("/:", r) {
			return '-'
		}
		return r
	}, b.place))
	must(w.t, os.WriteFile(source, []byte(b.text), 0o600))
	target := b.rest
	if rest, ok := strings.CutPrefix(target, "~/"); ok {
		target = filepath.Join(w.home, rest)
	}
	w.step(step{line: line{b.place, fmt.Sprintf("mkdir -p %s && cp %s %s", filepath.Dir(target), source, target)}})
}

// connect adds a check of each entry for the gateway in a host's file: the inspector lists tools with it.
func (w *walker) connect(b block) {
	entries := toGateway(w.t, b)
	text, err := json.Marshal(map[string]any{"mcpServers": entries})
	must(w.t, err)
	for name := range entries {
		file := filepath.Join(w.dir, fmt.Sprintf("host-%d.json", len(w.steps)))
		must(w.t, os.WriteFile(file, text, 0o600))
		attend := ""
		if speaks.Match(text) {
			attend = "attend\n"
		}
		command := append(rig.Inspector(w.t), "--config", file, "--server", name, "--method", "tools/list")
		w.step(step{line: line{b.place, attend + strings.Join(command, " ") + " >\"$WALK/tools\" && cat \"$WALK/tools\" && grep -q '\"name\"' \"$WALK/tools\""}})
	}
}

// run runs the script and reports the first command that failed.
func (w *walker) run(start string) {
	t := w.t
	script := filepath.Join(w.dir, "script")
	must(t, os.WriteFile(script, []byte(w.script.String()), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), walkWithin)
	defer cancel()
	_, said, err := process.Run(ctx, t, "", process.Options{
		Name: "reader", Args: []string{"sh", script}, Dir: start,
		Env: append(goEnvironment(t), "HOME="+w.home, "WALK="+w.dir, "PATH="+w.path()),
	})
	if err != nil {
		at, _ := os.ReadFile(filepath.Join(w.dir, "at"))
		n := 0
		fmt.Sscan(string(at), &n)
		served, _ := os.ReadFile(filepath.Join(w.dir, "served"))
		t.Fatalf("%s: %v after\n%s\nwhich printed\n%s%s\nThe gateway that served printed\n%s", w.steps[n].place, err, w.steps[n].text, w.printed(n), said, served)
	}
	for n, s := range slices.Backward(w.steps) { // from the end, so that updates do not move earlier lines
		switch {
		case !s.compared || matches(s.printed, w.printed(n)):
		case *update:
			w.show(s, w.printed(n))
		default:
			t.Errorf("%s: the document shows\n%s\nit prints\n%s", s.place, strings.Join(s.printed, "\n"), w.printed(n))
		}
	}
}

// show writes the output of a command into its document.
func (w *walker) show(s step, printed string) {
	file := filepath.Join(root, strings.Split(s.place, ":")[0])
	text, err := os.ReadFile(file)
	must(w.t, err)
	lines := strings.Split(string(text), "\n")
	old := len(s.printed)
	for old > 0 && s.printed[old-1] == "" { // blank lines between commands
		old--
	}
	now := strings.Split(strings.TrimRight(printed, "\n"), "\n")
	if printed == "" {
		now = nil
	}
	must(w.t, os.WriteFile(file, []byte(strings.Join(slices.Replace(lines, s.first, s.first+old, now...), "\n")), 0o644))
}

// path returns the reader's PATH. The gateway is not on it for a document in the root folder, which must install it.
func (w *walker) path() string {
	return filepath.Join(w.home, "bin") + ":" + filepath.Join(w.dir, "bin") + ":" + os.Getenv("PATH")
}

// printed returns the output of a step, with paths as the document writes them.
func (w *walker) printed(n int) string {
	out, _ := os.ReadFile(filepath.Join(w.dir, fmt.Sprintf("out.%d", n)))
	return strings.ReplaceAll(string(out), w.home, "/home/me")
}

// shims puts an npx that runs the installed packages first on PATH.
func (w *walker) shims() {
	t := w.t
	bin := filepath.Join(w.dir, "bin")
	must(t, os.Mkdir(bin, 0o755))
	node, err := filepath.Abs(root + "/test/node_modules/.bin/node")
	must(t, err)
	must(t, os.Symlink(node, filepath.Join(bin, "node")))

	text, err := os.ReadFile(root + "/test/package.json")
	must(t, err)
	var installed struct{ Dependencies map[string]string }
	must(t, json.Unmarshal(text, &installed))
	var cases strings.Builder
	for name := range installed.Dependencies {
		if main := program(t, name); main != "" {
			fmt.Fprintf(&cases, "%s|%s@*) shift; exec %s %s \"$@\" ;;\n", name, name, node, main)
		}
	}
	npx := "#!/bin/sh\nwhile :; do case $1 in\n-*) shift ;;\n" + cases.String() + "*) echo \"npx: $1 is not among the installed packages\" >&2; exit 1 ;;\nesac; done\n"
	must(t, os.WriteFile(filepath.Join(bin, "npx"), []byte(npx), 0o755))
}

// program returns the file that npx runs for a package, "" if there is none.
func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "test/node_modules", name))
	must(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	must(t, err)
	var p struct{ Bin any }
	must(t, json.Unmarshal(text, &p))
	switch bin := p.Bin.(type) {
	case string:
		return filepath.Join(dir, bin)
	case map[string]any:
		for _, command := range slices.Sorted(maps.Keys(bin)) { // npx needs a single target, or the command named like the package
			if main, ok := bin[command].(string); ok && (len(bin) == 1 || command == filepath.Base(name)) {
				return filepath.Join(dir, main)
			}
		}
	}
	return ""
}

// goEnvironmentOnce lets the go command work with another home, and without that home's paths in its output, so that the build cache is shared.
var goEnvironmentOnce = sync.OnceValues(func() ([]string, error) {
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS", "GOTOOLCHAIN", "GOPROXY", "GOSUMDB").Output()
	if err != nil {
		return nil, err
	}
	var vars map[string]string
	if err := json.Unmarshal(out, &vars); err != nil {
		return nil, err
	}
	vars["GOFLAGS"] = strings.TrimSpace(vars["GOFLAGS"] + " -trimpath")
	var env []string
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	return env, nil
})

func goEnvironment(t *testing.T) []string {
	t.Helper()
	env, err := goEnvironmentOnce()
	must(t, err)
	return env
}

// copyRepository copies the files of a clone, except for the tests.
func copyRepository(t *testing.T, to string) {
	t.Helper()
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case name == ".":
			return nil
		case d.IsDir() && (strings.HasPrefix(name, ".") || name == "bin" || name == "test"):
			return filepath.SkipDir
		case d.IsDir():
			return os.Mkdir(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o644)
	}))
}

// usage returns the help of a verb. ok is false for an unknown verb.
func usage(t *testing.T, verb string) (help string, ok bool) {
	t.Helper()
	args := []string{"--help"}
	if verb != "" {
		args = []string{verb, "--help"}
	}
	out, err := exec.Command(rig.Binary(t), args...).CombinedOutput()
	if err != nil {
		return "", false
	}
	return string(out), verb == "" || verb == "help" || strings.Contains(string(out), "\n  gateway "+verb)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
