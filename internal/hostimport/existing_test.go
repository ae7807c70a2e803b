package hostimport

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/config"
)

// A server that is an upstream already is left out, under whichever name. Another server gets a name of its own, and is
// left out when the result is imported into again.
func TestInto(t *testing.T) {
	dir := t.TempDir()
	into := func(text string) *config.Config {
		t.Helper()
		cfg, err := config.Parse(filepath.Join(dir, "gateway.yaml"), []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("gateway.env", "TOKEN_A=s3cret-a\n")
	write("token", "s3cret-f\n")
	host := File{Name: "mcp.json", Folder: dir, Data: []byte(`{"mcpServers": {
		"github": {"command": "npx", "args": ["other-github"]},
		"tickets": {"command": "tickets", "env": {"TOKEN": "s3cret-a"}},
		"Tickets": {"command": "tickets", "env": {"TOKEN": "s3cret-b"}},
		"search": {"url": "https://mcp.example.com/mcp", "headers": {"X-Key": "s3cret-a"}},
		"from-file": {"command": "x", "args": ["--key={file:token}"]},
		"unset": {"command": "y", "args": ["${NOT_SET}"], "env": {"K": "${NOT_SET}"}}}}`)}
	im, err := Options{Into: into(`env_file: gateway.env
upstreams:
  github: {command: my-github}
  tickets: {command: tickets, env: {TOKEN: "${TOKEN_A}"}, timeout: 5s}
  find: {url: "https://mcp.example.com/mcp", headers: {X-Key: "${TOKEN_A}"}}
  from-file: {command: x, args: ["--key=${file:token}"]}
  unset: {command: y, args: ["${NOT_SET}"], env: {K: "${NOT_SET}"}}
`)}.Import(host)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range im.Servers {
		names = append(names, s.Name)
	}
	if want := []string{"github-2", "tickets-2"}; !slices.Equal(names, want) {
		t.Errorf("imported are %v, want %v", names, want)
	}
	said := describe(im)
	for _, want := range []string{
		"mcpServers.github: is named github-2 here, since the upstream github is another server",
		"mcpServers.tickets: is left out: there is an upstream tickets already",
		"mcpServers.Tickets: is named tickets-2 here, since the upstream tickets has the same command and another env",
		"mcpServers.search: is left out: the upstream find is the same server",
		"mcpServers.from-file: is left out: there is an upstream from-file already",
		"mcpServers.unset: is left out: there is an upstream unset already",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing says %q:\n%s", want, said)
		}
	}
	write("gateway.env", "TICKETS_TOKEN=s3cret-b\n")
	im, err = Options{Into: into("env_file: gateway.env\n" + string(im.YAML[strings.Index(string(im.YAML), "upstreams:"):]))}.Import(host)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range im.Servers {
		if strings.HasPrefix(s.Name, "github") || s.Name == "tickets-2" {
			t.Errorf("the second time %s is imported:\n%s", s.Name, describe(im))
		}
	}
}

// Another env, cwd or envFile, or other headers, are another server, also if the host or the upstream has none. References
// and files count by their values, and references to variables that are not set by the names of the variables.
func TestIntoTellsServersApart(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"gateway.env": "KEY=s3cret\nDSN=\"db://u:${UNSET}@a/\"\n", "x.env": "A=1\nB=2\n", "y.env": "A=1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", dir)
	for _, tc := range []struct{ host, upstream, differs string }{
		{`"command": "x"`, `{command: x, timeout: 5s, tools: {deny: [y]}}`, ""},
		{`"command": "x"`, `{command: x, env: {DATA: /work}}`, "command and another env"},
		{`"command": "x", "env": {"DATA": "/work"}`, `{command: x}`, "command and another env"},
		{`"command": "x", "env": {"DATA": "/work"}`, `{command: x, env: {DATA: /home}}`, "command and another env"},
		{`"command": "x", "env": {"A": "1", "K": "s3cret"}`, `{command: x, env: {K: "${KEY}", A: "1"}}`, ""},
		{`"command": "x", "env": {"K": "${KEY}"}`, `{command: x, env: {K: "s3cret"}}`, ""},
		{`"command": "x", "env": {"K": "${UNSET}"}`, `{command: x, env: {K: "${UNSET}"}}`, ""},
		{`"command": "x", "env": {"K": "${UNSET}"}`, `{command: x, env: {K: "${OTHER}"}}`, "command and another env"},
		{`"command": "x", "env": {"K": "k"}`, `{command: x, env: {K: "${UNSET}"}}`, "command and another env"},
		{`"command": "x", "env": {"K": "${UNSET}"}`, `{command: x, env: {K: "k"}}`, "command and another env"},
		{`"command": "x"`, `{command: x, env: {K: "${UNSET}"}}`, "command and another env"},
		{`"command": "x", "env": {"K": "${UNSET}:${KEY}"}`, `{command: x, env: {K: "${env:UNSET}:s3cret"}}`, ""},
		{`"command": "x", "env": {"K": "${UNSET}:${KEY}"}`, `{command: x, env: {K: "${UNSET}-${KEY}"}}`, "command and another env"},
		{`"command": "x", "args": ["${UNSET}:s3cret"]`, `{command: x, args: ["${UNSET}:${KEY}"]}`, "server"}, // args keep the text of the file
		{`"command": "x", "env": {"K": "${input:un-set}"}`, `{command: x, env: {K: "${input:un-set}"}}`, ""},
		{`"command": "x", "env": {"K": "${input:un-set}"}`, `{command: x, env: {K: "${UN_SET_2}"}}`, ""},
		{`"command": "x", "env": {"K": "${input:un-set}"}`, `{command: x, env: {K: "${UN_SET_B}"}}`, "command and another env"},
		{`"command": "x", "env": {"K": "db://u:${UNSET}@a/"}`, `{command: x, env: {K: "${DSN}"}}`, ""},
		{`"command": "x", "env": {"K": "db://u:${UNSET}@b/"}`, `{command: x, env: {K: "${DSN}"}}`, "command and another env"},
		{`"command": "x", "env": {"K": "{file:none}"}`, `{command: x, env: {K: "${file:none}"}}`, ""},
		{`"command": "x", "env": {"A": "1", "B": "2"}`, `{command: x, envFile: x.env}`, ""},
		{`"command": "x", "env": {"A": "1"}`, `{command: x, envFile: x.env}`, "command and another env"},
		{`"command": "x", "envFile": "x.env"`, `{command: x, envFile: x.env}`, ""},
		{`"command": "x", "envFile": "x.env"`, `{command: x, envFile: x.env, env: {C: "3"}}`, "command and another env"},
		{`"command": "x", "envFile": "x.env", "env": {"A": "3"}`, `{command: x, envFile: x.env, env: {A: "3"}}`, ""},
		{`"command": "x", "envFile": "x.env"`, `{command: x, envFile: y.env}`, "command and another envFile"},
		{`"command": "x", "cwd": "${userHome}"`, `{command: x, cwd: "` + dir + `"}`, ""},
		{`"command": "x"`, `{command: x, cwd: /srv}`, "command and another cwd"},
		{`"url": "https://x.example/mcp"`, `{url: "https://x.example/mcp", headers: {X-Key: k}}`, "url and other headers"},
		{`"url": "https://x.example/mcp", "headers": {"X-Key": "s3cret"}`, `{urls: ["https://y.example/mcp", "https://x.example/mcp"], headers: {X-Key: "${KEY}"}}`, ""},
		{`"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer abc"}`, `{url: "https://x.example/mcp", headers: {Authorization: "Bearer ${UNSET}"}}`, "url and other headers"},
		{`"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${input:private}"}`, `{url: "https://x.example/mcp", headers: {Authorization: "Bearer ${WORK}"}}`, "url and other headers"},
		{`"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${input:work}"}`, `{url: "https://x.example/mcp", headers: {Authorization: "Bearer ${WORK}"}}`, ""},
		{`"url": "https://x.example/mcp"`, `{command: x}`, "server"},
	} {
		cfg, err := config.Parse(filepath.Join(dir, "gateway.yaml"), []byte("env_file: gateway.env\nupstreams:\n  a: "+tc.upstream), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		im, err := Options{Into: cfg}.Import(File{Name: "a.json", Folder: dir, Data: []byte(`{"mcpServers": {"a": {` + tc.host + `}}}`)})
		if err != nil {
			t.Fatal(err)
		}
		want := "mcpServers.a: is left out: there is an upstream a already"
		if tc.differs != "" {
			want = "mcpServers.a: is named a-2 here, since the upstream a "
		}
		if said := describe(im); !strings.Contains(said, want) || !strings.Contains(said, tc.differs) {
			t.Errorf("%s beside %s: want %q and %q:\n%s", tc.host, tc.upstream, want, tc.differs, said)
		}
	}
}

// Hosts have words of their own for one folder: a server that several of them start is imported once.
func TestImportRecognizesSameServer(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	t.Setenv("KEY", "s3cret")
	im, err := Options{}.Import(
		File{Name: "claude.json", Folder: "/home/u", Data: []byte(`{"mcpServers": {"files": {"command": "npx", "args": ["/home/u/notes", "{file:/k}"], "env": {"KEY": "s3cret"}}}}`)},
		File{Name: "cursor.json", Folder: "/home/u/.cursor", Data: []byte(`{"mcpServers": {"files": {"command": "npx", "args": ["${userHome}/notes", "{file:/k}"], "env": {"KEY": "${env:KEY}"}}}}`)},
		File{Name: "other.json", Folder: "/home/u", Data: []byte(`{"mcpServers": {"files": {"command": "npx", "args": ["/home/u/notes", "{file:/other}"], "env": {"KEY": "s3cret"}}}}`)},
	)
	if err != nil {
		t.Fatal(err)
	}
	said := describe(im)
	if want := `cursor.json:1:17: mcpServers.files: is the same as "files" at claude.json:1:17 and is left out`; im.Upstreams != 2 || !strings.Contains(said, want) {
		t.Errorf("%d upstreams, want 2, and %q:\n%s", im.Upstreams, want, said)
	}
}
