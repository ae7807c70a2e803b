package hostimport

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
)

var update = flag.Bool("update", false, "write the goldens anew")

// importFolder has the folders from which the files of testdata seem to be.
var importFolder = map[string]string{"vscode.json": "/home/u/app/.vscode", "cursor.json": "/home/u/app/.cursor", "gemini.json": "/home/u/.gemini", "vscode-user.json": "/home/u/.config/Code/User"}

// TestImport compares the results for hosts' configurations with goldens. A result has none of
// the secrets. The loader accepts it if all its variables are set, and otherwise names each
// missing variable.
func TestImport(t *testing.T) {
	for _, name := range []string{"HOME", "USER_NAME", "SEARCH_HOST", "TOKEN"} { // Gemini CLI keeps what is not set as text
		t.Setenv(name, "/home/u")
	}
	files := corpus(t, "testdata")
	if len(files) < 12 {
		t.Fatalf("%d files of hosts, want 12 shapes at least", len(files))
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			folder := importFolder[file]
			if folder == "" {
				folder = "/home/u/app"
			}
			host := File{Name: file, Data: data, Folder: folder}
			im, err := Options{}.Import(host)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(im)
			if strings.Contains(got, "s3cret") {
				t.Errorf("a secret is left:\n%s", got)
			}
			golden(t, filepath.Join("testdata", file+".golden"), got)
			again, err := Options{}.Import(host)
			if err != nil || describe(again) != got {
				t.Error("a second import of the same file has another result")
			}
			loads(t, im)
		})
	}
}

func describe(im *Result) string {
	var b strings.Builder
	b.Write(im.YAML)
	fmt.Fprintf(&b, "\n--- %d upstreams; to set:\n", im.Upstreams)
	for _, v := range im.Variables {
		fmt.Fprintf(&b, "%s moved=%v (%s)\n", v.Name, v.Moved, v.Note)
		for _, u := range v.Uses {
			fmt.Fprintf(&b, "    %s\n", u)
		}
	}
	b.WriteString("--- remarks:\n")
	for _, r := range im.Warnings {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// loads checks that the loader accepts the result if its variables are set, and otherwise names
// each missing variable.
func loads(t *testing.T, im *Result) {
	t.Helper()
	read := config.WithReader(func(string) ([]byte, error) { return []byte("A=b\n"), nil })
	names := make(map[string]bool)
	for _, v := range im.Variables {
		if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(v.Name) || names[v.Name] {
			t.Errorf("variable %q is invalid or repeated", v.Name)
		}
		if v.Moved && v.Name != strings.ToUpper(v.Name) {
			t.Errorf("variable %q is not in upper case", v.Name)
		}
		names[v.Name] = true
	}
	set := func(name string) (string, bool) {
		if names[name] || name == "HOME" {
			return "v", true
		}
		return "", false
	}
	cfg, err := config.Parse("/out.yaml", im.YAML, set, read)
	if err != nil {
		t.Errorf("not accepted with everything set:\n%v\n%s", err, im.YAML)
	} else if len(cfg.Upstreams) != im.Upstreams {
		t.Errorf("%d upstreams, want %d", len(cfg.Upstreams), im.Upstreams)
	} else if len(cfg.Warnings) > 0 && !strings.Contains(cfg.Warnings[0].Msg, "disabled") {
		t.Errorf("warnings about the imported file: %v", cfg.Warnings)
	}
	unset := func(name string) (string, bool) { return "", name == "HOME" }
	if cfg, err = config.Parse("/out.yaml", im.YAML, unset, read); err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, u := range cfg.Upstreams {
		for _, v := range u.Unset {
			missing = append(missing, v.Name)
		}
	}
	for name := range names {
		if !slices.Contains(missing, name) {
			t.Errorf("%s is not missed: %v", name, missing)
		}
	}
}

func TestImportSeveralFiles(t *testing.T) {
	im, err := Options{}.Import(
		File{Name: "a.json", Folder: "/a", Data: []byte(`{"mcpServers": {"github": {"command": "gh", "env": {"TOKEN": "s3cret"}}, "x": {"command": "./x", "cwd": "sub"}}}`)},
		File{Name: "b.json", Folder: "/b", Data: []byte(`{"servers": {"github": {"command": "gh", "env": {"TOKEN": "s3cret"}}, "x": {"command": "./x", "cwd": "sub"}, "GitHub": {"command": "gh", "env": {"TOKEN": "other-s3cret"}}}}`)},
	)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/several.golden", describe(im))
	loads(t, im)
}

func TestImportErrors(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"a.json", `{"mcpServers": {"a": {"command": "x",}, "a": {"command": "y"}}}`, `a.json:1:41: mcpServers.a: is here twice; the first is at 1:17`},
		{"a.json", `{"mcpServers": `, `a.json:1:16: not valid JSON: it ends too early`},
		{"a.json", `[]`, `a.json:1:1: must be a mapping, not a list`},
		{"a.json", `{"editor.fontSize": 3}`, `a.json:1:1: no servers; they are looked for under mcpServers, servers, mcp, mcp_servers, context_servers, extensions and projects, as hosts write them`},
		{"a.json", `{"mcpServers": {"a": {}}}`, "a.json:1:1: no server can be imported\na.json:1:17: mcpServers.a: is left out: it has neither a command nor a url"},
		{"a.toml", "[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a]\n", `a.toml:3:2: not valid TOML: the table is here twice; the first is at 1:14`},
		{"a.toml", "[mcp_servers.a\n", `a.toml:1:15: not valid TOML: expected ']' to close table name`},
		{"a.toml", "[mcp_servers.a]\ncommand = 'x'\ncommand = 'y'\n", `a.toml:3:1: mcp_servers.a.command: is here twice; the first is at 2:1`},
		{"a.toml", "a = 1\n[a.b]\n", `a.toml:2:2: not valid TOML: "a" has a value already, and no keys below it`},
		{"a.toml", "a = []\n[a.b]\n", `a.toml:2:2: not valid TOML: "a" has a value already, and no keys below it`},
		{"a.toml", "[a]\n[[a]]\n", `a.toml:2:3: not valid TOML: "a" has a value already, and is no list of tables`},
		{"a.toml", "a = \n", `a.toml:1:5: not valid TOML: unexpected character U+000A at start of value`},
		{"a.toml", "a = 1\n", `a.toml:1:1: no servers; they are looked for under mcpServers, servers, mcp, mcp_servers, context_servers, extensions and projects, as hosts write them`},
		{"gateway.yaml", "upstreams: {a: {command: x}}", `gateway.yaml:1:1: upstreams: this is already a configuration of the gateway; use it with gateway run -c`},
	} {
		_, err := Options{}.Import(File{Name: tc.name, Data: []byte(tc.data), Folder: "/"})
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s: got\n%v\nwant\n%s", tc.data, err, tc.want)
		}
	}
}

// TestImportLeavesNoSecret puts random secrets in every place where hosts have them.
func TestImportLeavesNoSecret(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		secrets := make([]string, 12)
		for i := range secrets {
			secrets[i] = madeUpSecret(rnd)
		}
		s := secrets
		file := fmt.Sprintf(`{"mcpServers": {
			"a": {"command": "npx", "args": ["x", "--api-key", %q, "--token=%s", "TOKEN=%s", "-e", "ANY=%s", "--header", "X-Any: %s", "https://h.example/p?apikey=%s"],
			      "env": {"ANYTHING": %q, "FOO_TOKEN": "x%s", "CONFIG": "{\"a\": \"%s\"}"}},
			"b": {"url": "https://me:%s@h.example/mcp?key=%s", "headers": {"X-Whatever": "Bearer %s"}}}}`,
			s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11])
		im, err := Options{}.Import(File{Name: "x.json", Data: []byte(file), Folder: "/x"})
		if err != nil {
			t.Fatal(err)
		}
		got := describe(im)
		for i, secret := range secrets {
			if strings.Contains(got, secret) {
				t.Fatalf("secret %d, %s, is left in\n%s", i, secret, got)
			}
		}
		loads(t, im)
	}
}

// Arguments with the prefix of a well-known service become variables, and other long arguments
// do not.
func TestImportFindsTokensAmongArguments(t *testing.T) {
	const plain = "@modelcontextprotocol/server-filesystem@2025.11.25"
	im, err := Options{}.Import(File{Name: "x.json", Folder: "/x", Data: []byte(`{"mcpServers": {"a": {"command": "npx", "args": [
		"` + plain + `", "0f8fad5b-d9cb-469f-a165-70867728950e", "ghp_s3cretAbCdEfGh12", "run:AKIAIOSFODNN7EXAMPLE", "--key", "-s3cretAbC1d2E3f4G5", "--max-tokens", "500",
		"-eFOO=hunter2", "ghcr.io/a/b@sha256:9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015"]}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	got := string(im.YAML)
	for _, secret := range []string{"ghp_", "AKIA", "s3cret", "hunter2"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is left in\n%s", secret, got)
		}
	}
	for _, want := range []string{plain, "0f8fad5b-d9cb-469f-a165-70867728950e", "--max-tokens, \"500\"", "@sha256:9f86d081884c7d65", "-eFOO=${A_FOO}"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not left in\n%s", want, got)
		}
	}
}

// Passwords without a known form are recognized by the name of their variable and as part of URLs,
// even of URLs that are not escaped.
func TestImportFindsPasswords(t *testing.T) {
	im, err := Options{}.Import(File{Name: "x.json", Folder: "/x", Data: []byte(`{"mcpServers": {
		"a": {"command": "x", "cwd": "/${DB_PASSWORD:-hunter}", "args": ["${DB_PASSWORD:-hunter}", "${PORT:-80}",
			"postgres://me:p#hunter@h/d", "postgres://me:p/hunter@h/d", "postgres://me:p?hunter@h/d", "https://h:8080/p/@scope/b?x=y", "https://h:${PORT}/a@b"]},
		"b": {"url": "https://h.example/${MY_TOKEN:-hunter}/mcp"}, "c": {"url": "https://me:p/hunter@h.example/mcp"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	got := describe(im)
	if strings.Contains(got, "hunter") {
		t.Errorf("a password is left in\n%s", got)
	}
	for _, want := range []string{"${PORT:-80}", "'https://h:8080/p/@scope/b?x=y'", "'https://h:${PORT}/a@b'", "https://h.example/${MY_TOKEN}/mcp", "url: https://h.example/mcp"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	loads(t, im)
}

// Gemini CLI keeps $NAME as text if there is no such variable, as in a password. The values reach the server as Gemini CLI
// passes them, and no value of one server keeps the configuration from being used.
func TestImportKeepsTextOfGemini(t *testing.T) {
	t.Setenv("WHO", "ann")
	values := map[string]string{
		"BARE": "pa$sword9", "TWICE": "a$$b", "BRACES": "a${b}c${b}", "ESCAPE": "a$${b}", "BOTH": "$WHO:x$sword9\"`",
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"a": map[string]any{"command": "x", "env": values, "args": []string{"a$b", "a${b}", "$${b}", "--key=x$b", "$WHO/x$b"}},
		"wait": map[string]any{"command": "y", "env": map[string]string{"KEY": "$NOT_SET"}, "args": []string{"${NOT_SET}"}}}})
	if err != nil {
		t.Fatal(err)
	}
	im, err := Options{EnvFile: "gateway.env"}.Import(File{Name: "x.json", Data: text, Folder: "/home/u/.gemini"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gateway.env"), []byte(im.Env.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse(filepath.Join(dir, "gateway.yaml"), im.YAML, os.LookupEnv)
	if err != nil {
		t.Fatalf("%v\n%s", err, im.YAML)
	}
	values["BOTH"] = "ann:x$sword9\"`"
	for name, want := range values {
		if got := cfg.Upstreams[0].Env[name].Reveal(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if want := []string{"a$b", "a${b}", "$${b}", "--key=x$b", "ann/x$b"}; !slices.Equal(cfg.Upstreams[0].Args, want) {
		t.Errorf("the arguments are %q, want %q", cfg.Upstreams[0].Args, want)
	}
	if got := cfg.Upstreams[1].Unset; len(got) != 2 || got[0].Name != "NOT_SET" {
		t.Errorf("a value that is a reference alone waits for %+v", got)
	}
	var said []string
	for _, w := range im.Warnings {
		said = append(said, w.Path+": "+w.Msg)
	}
	const end = " is not set; Gemini CLI does the same"
	if want := `mcpServers.a.env.BARE: "$sword9" is kept as text, because the variable sword9` + end; !slices.Contains(said, want) {
		t.Errorf("nothing says %q: %q", want, said)
	}
	if len(said) != 10 { // one for each value of a
		t.Errorf("%d warnings: %q", len(said), said)
	}
	if all := strings.Join(said, "\n"); strings.Contains(all, "pa$") || strings.Contains(all, "ann") {
		t.Errorf("a warning has more of a value than the reference: %s", all)
	}
}

// A shell that loads the file has the values that the host's file had.
func TestImportEnvFile(t *testing.T) {
	t.Setenv("WHO", "ann")
	values := map[string]string{
		"PLAIN": "debug", "QUOTED": `it's "here" $5 \ ` + "`x`", "LINES": "a\nb", "ONE": "${WHO}:secret", "TWO": "say \"${WHO}\" $HOME", "DEFAULT": "${NONE:-x}/y",
		"ODD": "${NONE:-`id`$(id)\"}/y",
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"a": map[string]any{"command": "x", "env": values}, "b": map[string]any{"url": "https://me:p%40ss@h.example/mcp"}}})
	if err != nil {
		t.Fatal(err)
	}
	im, err := Options{}.Import(File{Name: "x.json", Data: text, Folder: "/x"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.env")
	if err := os.WriteFile(file, []byte(im.Env.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"A_PLAIN": "debug", "A_QUOTED": values["QUOTED"], "A_LINES": "a\nb", "A_ONE": "ann:secret", "A_TWO": `say "ann" $HOME`, "A_DEFAULT": "x/y", "A_ODD": "`id`$(id)\"/y", "B_AUTHORIZATION": "bWU6cEBzcw==",
	} {
		got, err := exec.Command("sh", "-c", `set -a; . "$0"; set +a; printenv "$1"`, file, name).Output()
		if err != nil || string(got) != want+"\n" {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
		if name == "A_ODD" { // only a shell knows commands in references
			continue
		}
		cfg, err := config.Parse("/gateway.yaml", []byte("env_file: "+file+"\nupstreams: {a: {command: x, args: [\"${"+name+"}\"]}}"), os.LookupEnv)
		if err != nil || cfg.Upstreams[0].Args[0] != want {
			t.Errorf("with env_file %s is not %q: %+v, %v", name, want, cfg, err)
		}
	}
}

// A variable of env_file cannot refer to a file, so a value that does stays in gateway.yaml.
func TestImportValueWithFile(t *testing.T) {
	im, err := Options{}.Import(File{Name: "x.json", Folder: "/x", Data: []byte(`{"mcpServers": {"a": {"command": "x", "env": {"KEY": "key-{file:/k}"}}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(im.YAML), "key-${file:/k}") || strings.Contains(im.Env.Reveal(), "KEY") {
		t.Errorf("the value is not as before:\n%s\n%s", im.YAML, im.Env.Reveal())
	}
	if len(im.Warnings) != 1 || im.Warnings[0].Path != "mcpServers.a.env.KEY" || !strings.Contains(im.Warnings[0].Msg, "refers to a file") {
		t.Errorf("warnings: %v", im.Warnings)
	}
}

// madeUpSecret returns a random secret in a common form: password, token of a service, hex,
// Base64 or UUID.
func madeUpSecret(rnd *rand.Rand) string {
	chars := func(alphabet string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(alphabet[rnd.IntN(len(alphabet))])
		}
		return b.String()
	}
	const digits, lower = "0123456789", "abcdefghijklmnopqrstuvwxyz"
	const alnum = digits + lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	switch rnd.IntN(7) {
	case 0:
		return "ghp_" + chars(alnum, 36)
	case 1:
		return "sk-proj-" + chars(alnum, 40)
	case 2:
		return chars("0123456789abcdef", 32)
	case 3:
		return chars(alnum, 43)
	case 4:
		return fmt.Sprintf("%s-%s-%s-%s-%s", chars("0123456789abcdef", 8), chars("0123456789abcdef", 4), chars("0123456789abcdef", 4), chars("0123456789abcdef", 4), chars("0123456789abcdef", 12))
	case 5:
		return chars(lower, 14) // a random word
	default:
		return chars(alnum, 12) + "!" + chars(alnum, 4)
	}
}

// FuzzImport checks files in the languages of all hosts: Import does not panic, errors have
// positions, and the results load.
func FuzzImport(f *testing.F) {
	files, err := filepath.Glob("testdata/*.[jyt]*")
	if err != nil {
		f.Fatal(err)
	}
	ends := []string{".json", ".yaml", ".toml"}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for i, end := range ends {
			if strings.Contains(file, end) {
				f.Add(data, uint8(i))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, language uint8) {
		if len(data) > 1<<14 {
			return
		}
		im, err := Options{}.Import(File{Name: "f" + ends[int(language)%len(ends)], Data: bytes.Clone(data), Folder: "/f"})
		if err != nil {
			for _, e := range err.(configfile.Errors) {
				if e.Line < 1 || e.Col < 1 || e.Line > 1+lineEnds(data) {
					t.Errorf("a position outside of the file: %v", e)
				}
			}
			return
		}
		read := config.WithReader(func(string) ([]byte, error) { return nil, nil })
		set := func(string) (string, bool) { return "https://x.example", true }
		cfg, err := config.Parse("/out.yaml", im.YAML, set, read)
		if err != nil || len(cfg.Upstreams) != im.Upstreams {
			t.Errorf("not accepted: %v\n%s", err, im.YAML)
		}
	})
}

// corpus returns the names of the configurations in a folder.
func corpus(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); slices.Contains([]string{".yaml", ".json", ".jsonc", ".toml"}, ext) {
			files = append(files, e.Name())
		}
	}
	if len(files) == 0 {
		t.Fatalf("no configurations in %s", dir)
	}
	return files
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in %s (-want +got):\n%s", file, diff)
	}
}

// lineEnds returns the largest possible number of line ends by YAML's definition.
func lineEnds(data []byte) (n int) {
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		n += bytes.Count(data, []byte(end))
	}
	return n
}

// TestProgramsVariables imports ${NAME} in arguments if env has the same NAME. The program
// expands it if the value in env is literal, and the host expands it if the value is a
// reference.
func TestProgramsVariables(t *testing.T) {
	for args, want := range map[string]string{
		`"mcp-remote","https://h/mcp","--header","Authorization:${AUTH}"],"env":{"AUTH":"Bearer s3cret"}`: `args: [mcp-remote, 'https://h/mcp', --header, 'Authorization:$${AUTH}']`,
		`"--token","${AUTH}"],"env":{"AUTH":"s3cret"}`:                                                    `args: [--token, '$${AUTH}']`,
		`"--token","${AUTH}"],"env":{"AUTH":"${AUTH}"}`:                                                   `args: [--token, '${AUTH}']`,
		`"--token","${AUTH}"],"env":{"AUTH":"x-${OTHER}"}`:                                                `args: [--token, '${AUTH}']`,
		`"--token","${env:AUTH}"],"env":{"AUTH":"s3cret"}`:                                                `args: [--token, '${AUTH}']`,
		`"--token","${AUTH:-x}"],"env":{"AUTH":"s3cret"}`:                                                 `args: [--token, '${AUTH}']`,
		`"--token","${AUTH}"],"env":{"OTHER":"s3cret"}`:                                                   `args: [--token, '${AUTH}']`,
	} {
		im, err := Options{}.Import(File{Name: "mcp.json", Data: []byte(`{"mcpServers":{"r":{"command":"npx","args":[` + args + `}}}`), Folder: "/home/u"})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(im.YAML); !strings.Contains(got, want) || strings.Contains(got, "s3cret") {
			t.Errorf("%s gives %s, want %s", args, got, want)
		}
		loads(t, im)
	}
}

// The file of Claude Code has the history of its projects, and may be far larger than a configuration.
func TestImportOfLargeFile(t *testing.T) {
	file := `{"history": ["` + strings.Repeat("x", 2*configfile.MaxSize) + `"], "mcpServers": {"a": {"command": "x"}}}`
	if im, err := (Options{}).Import(File{Name: "x.json", Data: []byte(file), Folder: "/"}); err != nil || im.Upstreams != 1 {
		t.Errorf("%+v, %v", im, err)
	}
	_, err := Options{}.Import(File{Name: "x.json", Data: make([]byte, maxFile+1), Folder: "/"})
	if err == nil || err.Error() != "x.json:1:1: is larger than 64MiB" {
		t.Error(err)
	}
}
