package hostconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files that cannot be edited safely, and servers of others, are errors.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct{ host, file, want string }{
		{"cursor", `{"mcpServers": []}`, "mcpServers must be an object"},
		{"cursor", `{"mcpServers": null}`, "mcpServers must be an object"},
		{"cursor", `[]`, "it must hold a JSON object"},
		{"cursor", `{"mcpServers": {}`, "line 1, column 18: not valid JSON: "},
		{"cursor", `{"mcpServers": {}, "mcpServers": {}}`, "it has mcpServers 2 times"},
		{"cursor", `{"mcpServers": {"a": {}, "a": {}}}`, `mcpServers has "a" 2 times`},
		{"cursor", `{"mcpServers": {"\u0067ateway": {"command": "x"}}}`, `"gateway" is another server (x) there`},
		{"cursor", `{"mcpServers": {"gateway": 1}}`, `"gateway" is another server there`},
		{"cursor", `{"mcpServers": {"gateway": {"url": "https://u:p@a.example/mcp?key=1"}}}`, `"gateway" is another server (https://a.example/mcp) there`},
		{"codex", `mcp_servers = {a = {command = "x"}}`, "mcp_servers has a form that cannot be edited safely"},
		{"codex", `mcp_servers = 1`, "mcp_servers must be a table"},
		{"codex", "[mcp_servers\n", "line 1, column 13: not valid TOML: "},
		{"codex", "[mcp_servers.gateway]\ncommand = \"x\"\n", `"gateway" is another server (x) there`},
	} {
		h, _ := Find(tc.host)
		if after, err := h.Connect([]byte(tc.file), "gateway", stdio); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s\n%s", tc.file, err, tc.want, after)
		}
	}
	desktop, _ := Find("claude-desktop")
	if _, err := desktop.Connect(nil, "gateway", byURL); err == nil {
		t.Error("a URL for Claude Desktop is accepted")
	}
	cursor, _ := Find("cursor")
	if _, err := cursor.Disconnect([]byte(`{"mcpServers": {"x": {}}}`), "gateway", nil); !errors.Is(err, ErrAbsent) {
		t.Errorf("disconnect without an entry: %v", err)
	}
	var conflict *Conflict
	if _, err := cursor.Disconnect([]byte(`{"mcpServers": {"gateway": {"command": "npx", "args": ["stdio"]}}}`), "gateway", nil); !errors.As(err, &conflict) {
		t.Errorf("disconnect of another server: %v", err)
	}
}

// A file that its host cannot read is refused, at the place of the first mistake. What hosts read is from Claude Code 2.1,
// Gemini CLI 0.61, and the reports of users of Claude Desktop.
func TestDialects(t *testing.T) {
	const (
		comment  = "{\n  \"url\": \"http://\\\"/*\", // é\n  \"mcpServers\": {}\n}"
		block    = "{\"é\": 1 /* , */}"
		trailing = "{\n  \"mcpServers\": {}, // \"\n}"
		array    = "{\"a\": [1, 2 , ]}"
		mark     = "\ufeff{}"
	)
	for _, tc := range []struct {
		file string
		// want is the error by host; a host without one reads the file
		want map[string]string
	}{
		{comment, map[string]string{"claude-code": "line 2, column 25: Claude Code cannot read the file with a comment here", "claude-desktop": "line 2, column 25: "}},
		{block, map[string]string{"claude-code": "line 1, column 9: ", "claude-desktop": "line 1, column 9: "}},
		{trailing, map[string]string{"claude-code": "line 2, column 21: ", "claude-desktop": "line 2, column 21: ", "gemini": "line 2, column 19: Gemini CLI cannot read the file with a comma before } here"}},
		{array, map[string]string{"claude-code": "line 1, column 13: ", "claude-desktop": "line 1, column 13: ", "gemini": "line 1, column 13: Gemini CLI cannot read the file with a comma before ] here"}},
		{mark, map[string]string{"claude-desktop": "line 1, column 1: Claude Desktop cannot read the file with a byte order mark", "gemini": "line 1, column 1: "}},
		{"{\"a\": \"// , }\"}", nil},
	} {
		for _, h := range Hosts() {
			if h.toml {
				continue
			}
			want := tc.want[h.Name]
			_, err := h.Connect([]byte(tc.file), "gateway", stdio)
			if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
				t.Errorf("%s, %q: %v, want %q", h.Name, tc.file, err, want)
			}
			if _, _, entryErr := h.Entry([]byte(tc.file), "gateway", nil); (entryErr == nil) != (want == "") {
				t.Errorf("%s, %q: the entry is read: %v", h.Name, tc.file, entryErr)
			}
		}
	}
}

// Added names what a user has added to an entry or changed in it.
func TestAdded(t *testing.T) {
	for entry, want := range map[string]string{
		`{"type": "stdio", "command": "/b/gateway", "args": ["stdio", "-c", "/g.yaml"], "env": {}}`: "",
		`{"command": "/b/gateway", "args": ["stdio", "-c", "/g.yaml", "--profile", "x"]}`:           "",
		`{"command": "/b/gateway", "args": ["stdio", "-c", "/g.yaml"], "env": {"A": "b"}}`:          "env",
		`{"command": "docker-gateway", "args": ["stdio"]}`:                                          "args",
		`{"type": "http", "url": "http://127.0.0.1/mcp"}`:                                           "",
		`{"type": "sse", "url": "http://127.0.0.1/mcp", "headers": {"A": "b"}, "disabled": false}`:  "disabled headers type",
	} {
		h, _ := Find("claude-code")
		if got := strings.Join(h.Added([]byte(`{"mcpServers": {"gateway": `+entry+`}}`), "gateway"), " "); got != want {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
}

// An entry with a URL is removed if Connect can have written it.
func TestDisconnectURL(t *testing.T) {
	h, _ := Find("claude-code")
	for _, tc := range []struct {
		entry, before string
		ours          bool
	}{
		{`{"type": "http", "url": "http://127.0.0.1:8080/mcp"}`, "", true},
		{`{"type": "http", "url": "http://localhost:8080/mcp/coding", "headers": {"Authorization": "Bearer x"}}`, "", true},
		{`{"type": "http", "url": "http://[::1]:8080/"}`, "", true},
		{`{"type": "http", "url": "https://mcp.example.com/base/mcp"}`, "", true},
		{`{"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer x"}}`, `{"userID": "1"}`, true},
		{`{"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer x"}}`, "", false},
		{`{"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer x"}}`, `{"mcpServers": {"gateway": {"url": "https://x"}}}`, false},
		{`{"type": "sse", "url": "https://mcp.example.com/mcp"}`, "", false},
		{`{"type": "http", "url": "https://api.example.com/v1"}`, "", false},
		{`{"url": "http://127.0.0.1:9000/sse", "headers": {"X-Key": "x"}}`, "", false},
	} {
		file := []byte(`{"mcpServers": {"gateway": ` + tc.entry + `}}`)
		_, err := h.Disconnect(file, "gateway", []byte(tc.before))
		var conflict *Conflict
		if tc.ours != (err == nil) || err != nil && !errors.As(err, &conflict) {
			t.Errorf("%s after %s: %v", tc.entry, tc.before, err)
		}
		if e, found, err := h.Entry(file, "gateway", []byte(tc.before)); err != nil || !found || tc.ours != (e.URL != "") {
			t.Errorf("%s is %v, %v, %v", tc.entry, e, found, err)
		}
	}
}

// The last line of a file may be a comment without a line break.
func TestLastComment(t *testing.T) {
	h, _ := Find("vscode")
	before := []byte("{\"servers\": {\"a\": {}}} // end")
	after, err := h.Connect(before, "gateway", byURL)
	if want := `{"servers": {"a": {}, "gateway": {"type": "http", "url": "http://127.0.0.1:8080/mcp"}}} // end`; err != nil || string(after) != want {
		t.Errorf("connected: %v\n%s", err, after)
	}
	if without, err := h.Disconnect(after, "gateway", nil); err != nil || string(without) != string(before) {
		t.Errorf("disconnected: %v\n%s", err, without)
	}
	if _, err := h.Connect([]byte("{} /* end"), "gateway", byURL); err == nil {
		t.Error("a comment without an end is accepted")
	}
}

// A list of servers that was not there before Connect goes with its last entry, unless it has a comment.
func TestDisconnectWithList(t *testing.T) {
	const entry = `"gateway": {"url": "http://127.0.0.1/mcp"}`
	h, _ := Find("cursor")
	for _, tc := range []struct{ before, data, after string }{
		{`{}`, "{\n  \"mcpServers\": {\n    " + entry + "\n  },\n  \"a\": 1\n}\n", "{\n  \"a\": 1\n}\n"},
		{``, `{"a": 1, "mcpServers": {` + entry + `}}`, `{"a": 1}`},
		{`{}`, `{"a": 1, "mcpServers": {` + entry + `, "b": {}}}`, `{"a": 1, "mcpServers": {"b": {}}}`},
		{`{}`, `{"a": 1, "mcpServers": {` + entry + ` /* mine */ }}`, `{"a": 1, "mcpServers": { /* mine */ }}`},
		{`{"mcpServers": {}}`, `{"a": 1, "mcpServers": {` + entry + `}}`, `{"a": 1, "mcpServers": {}}`},
	} {
		if got, err := h.Disconnect([]byte(tc.data), "gateway", []byte(tc.before)); err != nil || string(got) != tc.after {
			t.Errorf("%s\ngot  %q, %v\nwant %q", tc.data, got, err, tc.after)
		}
	}
}

// Replace puts another entry in the place of the old one, wherever that is, and changes nothing else.
func TestReplaceFromWithin(t *testing.T) {
	const old, url = `"gateway": {"command": "/b/gateway", "args": ["stdio", "-c", "/g.yaml"]}`, `"gateway": {"url": "http://127.0.0.1:8080/mcp"}`
	for _, tc := range []struct{ host, before, after string }{
		{"cursor", `{"mcpServers": {` + old + `}, "b": 1}`, `{"mcpServers": {` + url + `}, "b": 1}`},
		{"cursor", `{"mcpServers": {` + old + `, "b": {}}}`, `{"mcpServers": {` + url + `, "b": {}}}`},
		{"cursor", "\ufeff{\r\n\t\"mcpServers\": {\r\n\t\t// g\r\n\t\t" + old + ", // g too\r\n\t\t\"b\": {},\r\n\t},\r\n\t\"c\": 1\r\n}", "\ufeff{\r\n\t\"mcpServers\": {\r\n\t\t// g\r\n\t\t\"gateway\": {\r\n\t\t\t\"url\": \"http://127.0.0.1:8080/mcp\"\r\n\t\t}, // g too\r\n\t\t\"b\": {},\r\n\t},\r\n\t\"c\": 1\r\n}"},
		{
			"codex", "a = 1\n\n# the gateway\n[mcp_servers.gateway]\ncommand = \"/b/gateway\"\nargs = [\"stdio\", \"-c\", \"/g.yaml\"]\n\n[mcp_servers.gateway.env]\n\n# next\n[x]\ny = 1\n\n[mcp_servers.gateway.tools]\n",
			"a = 1\n\n# the gateway\n[mcp_servers.gateway]\nurl = \"http://127.0.0.1:8080/mcp\"\n\n# next\n[x]\ny = 1\n",
		},
	} {
		h, _ := Find(tc.host)
		if got, err := h.Replace([]byte(tc.before), "gateway", byURL); err != nil || string(got) != tc.after {
			t.Errorf("%s\ngot  %q, %v\nwant %q", tc.before, got, err, tc.after)
		}
	}
	codex, _ := Find("codex")
	if _, err := codex.Replace([]byte("[mcp_servers]\ngateway = { url = \"http://127.0.0.1/mcp\" }\n"), "gateway", byURL); !errors.Is(err, ErrForm) {
		t.Errorf("an inline table: %v", err)
	}
}

// Disconnect removes the entry wherever it is, and nothing else.
func TestDisconnectFromWithin(t *testing.T) {
	const entry = `"gateway": {"command": "/b/gateway", "args": ["stdio", "-c", "/g.yaml"], "env": {"PATH": "/bin"}}`
	for _, tc := range []struct{ host, before, after string }{
		{"cursor", `{"mcpServers": {` + entry + `}}`, `{"mcpServers": {}}`},
		{"cursor", `{"mcpServers": {` + entry + `, "b": {}}}`, `{"mcpServers": {"b": {}}}`},
		{"cursor", `{"mcpServers": {"a": {}, ` + entry + `}}`, `{"mcpServers": {"a": {}}}`},
		{"cursor", `{"mcpServers": {"a": {}, ` + entry + `, "b": {}}}`, `{"mcpServers": {"a": {},  "b": {}}}`},
		{"cursor", "{\"mcpServers\": {\n  \"a\": {}, // a\n  // g\n  " + entry + " // g too\n  // end\n}}", "{\"mcpServers\": {\n  \"a\": {} // a\n  // g\n   // g too\n  // end\n}}"},
		{"cursor", "\ufeff{\"mcpServers\": {\n  " + entry + ",\n  \"b\": {}\n}}\n", "\ufeff{\"mcpServers\": {\n  \"b\": {}\n}}\n"},
		{"cursor", "{\"mcpServers\": {\n  \"a\": {}\n  ," + entry + "\n}}\n", "{\"mcpServers\": {\n  \"a\": {}\n}}\n"},
		{
			"codex", "a = 1\n\n# the gateway\n[mcp_servers.\"gateway\"] # here\ncommand = \"/b/gateway\" # it\n# within\nargs = [\n  \"stdio\", # b\n]\n\n[mcp_servers.gateway.env]\nA = \"b\"\n\n# next\n[x]\ny = 1\n",
			"a = 1\n\n# the gateway\n# within\n\n# next\n[x]\ny = 1\n",
		},
		{"codex", "[mcp_servers.gateway]\nurl = \"http://127.0.0.1/mcp\"", ""},
		{"codex", "[mcp_servers.gateway]\r\nurl = \"http://127.0.0.1/mcp\"\r\n\r\n[a]\r\nb = '''\r\n[mcp_servers.gateway]\r\n'''\r\n", "\r\n[a]\r\nb = '''\r\n[mcp_servers.gateway]\r\n'''\r\n"},
	} {
		h, _ := Find(tc.host)
		got, err := h.Disconnect([]byte(tc.before), "gateway", nil)
		if err != nil || string(got) != tc.after {
			t.Errorf("%s\ngot  %q, %v\nwant %q", tc.before, got, err, tc.after)
		}
	}
	codex, _ := Find("codex")
	if _, err := codex.Disconnect([]byte("[mcp_servers]\ngateway = { url = \"http://127.0.0.1/mcp\" }\n"), "gateway", nil); err == nil || !errors.Is(err, ErrForm) {
		t.Errorf("an inline table: %v", err)
	}
}

func TestFiles(t *testing.T) {
	for _, tc := range []struct {
		host, os string
		env      map[string]string
		want     string
	}{
		{"claude-desktop", "linux", nil, "/h/.config/Claude/claude_desktop_config.json"},
		{"claude-desktop", "darwin", map[string]string{"XDG_CONFIG_HOME": "/x"}, "/h/Library/Application Support/Claude/claude_desktop_config.json"},
		{"claude-desktop", "windows", map[string]string{"APPDATA": "/a"}, "/a/Claude/claude_desktop_config.json"},
		{"claude-desktop", "windows", nil, "/h/AppData/Roaming/Claude/claude_desktop_config.json"},
		{"claude-code", "darwin", nil, "/h/.claude.json"},
		{"claude", "linux", map[string]string{"CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json"},
		{"cursor", "windows", nil, "/h/.cursor/mcp.json"},
		{"vscode", "linux", map[string]string{"XDG_CONFIG_HOME": "/x"}, "/x/Code/User/mcp.json"},
		{"vscode", "linux", map[string]string{"XDG_CONFIG_HOME": "x"}, "/h/.config/Code/User/mcp.json"},
		{"vscode", "linux", map[string]string{"VSCODE_PORTABLE": "/p"}, "/p/user-data/User/mcp.json"},
		{"windsurf", "linux", nil, "/h/.codeium/windsurf/mcp_config.json"},
		{"zed", "darwin", nil, "/h/.config/zed/settings.json"},
		{"zed", "linux", map[string]string{"XDG_CONFIG_HOME": "/x"}, "/x/zed/settings.json"},
		{"zed", "windows", map[string]string{"APPDATA": "/a"}, "/a/Zed/settings.json"},
		{"codex", "linux", nil, "/h/.codex/config.toml"},
		{"codex", "linux", map[string]string{"CODEX_HOME": "/c"}, "/c/config.toml"},
		{"gemini", "linux", nil, "/h/.gemini/settings.json"},
		{"Gemini-CLI", "linux", map[string]string{"GEMINI_CLI_HOME": "/g"}, "/g/.gemini/settings.json"},
	} {
		h, ok := Find(tc.host)
		if !ok {
			t.Fatalf("no host %s", tc.host)
		}
		m := Machine{OS: tc.os, Home: "/h", Env: func(name string) string { return tc.env[name] }}
		if got, err := h.File(m); err != nil || filepath.ToSlash(got) != tc.want {
			t.Errorf("%s on %s: %s, %v, want %s", tc.host, tc.os, got, err, tc.want)
		}
	}
	if _, err := hosts[0].File(Machine{Env: func(string) string { return "" }}); err == nil {
		t.Error("a file without a home folder")
	}
}

// A replaced file keeps its permissions and its links, and has a backup. Restore brings back what was there.
func TestReplaceAndRestore(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "dotfiles.json"), filepath.Join(dir, "link.json")
	if err := os.WriteFile(real, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("dotfiles.json", link); err != nil {
		t.Fatal(err)
	}
	f := readFile(t, link)
	if err := f.Replace([]byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	for _, name := range []string{real, link + backupSuffix} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if err := f.Replace([]byte("x")); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("replaced although the file has changed: %v", err)
	}
	f = readFile(t, link)
	before, err := f.Before()
	if err != nil || string(before) != "old" || string(f.Data) != "new" {
		t.Errorf("before %q, now %q, %v", before, f.Data, err)
	}
	if err := f.Restore(before); err != nil || string(read(t, real)) != "old" {
		t.Errorf("restored %q, %v", read(t, real), err)
	}

	// A file that did not exist is removed again.
	fresh := readFile(t, filepath.Join(dir, "a", "b.json"))
	if err := fresh.Replace([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(fresh.Name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	fresh = readFile(t, fresh.Name)
	if before, err = fresh.Before(); err != nil || len(before) > 0 {
		t.Errorf("before %q, %v", before, err)
	}
	if err := fresh.Restore(before); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func readFile(t *testing.T, name string) *File {
	t.Helper()
	f, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
