package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
)

// An unset variable takes down its upstream alone. The upstream comes up when env_file, which is
// watched, has the variable. A reload without the variable keeps the connection that works, and says so.
func TestUnsetVariable(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	vars := filepath.Join(t.TempDir(), "vars.env")
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(vars, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("")
	f := runFile(t, "env_file: "+vars+"\nupstreams:\n  a: "+a.entry("")+"\n  b: "+b.entry(`, "headers": {"X-Key": "${UNSET_HERE}"}`)+"\n")
	polltest.Until(t, "b is down", func() bool { return f.Upstreams()[1].State == connector.Down })
	down := f.Upstreams()[1]
	want := f.path + ":4:" // the place follows
	if !strings.HasPrefix(down.Reason, want) || !strings.HasSuffix(down.Reason, "upstreams.b.headers.X-Key: the environment variable UNSET_HERE is not set; set it before the gateway starts, or in env_file, or write ${UNSET_HERE:-default}") {
		t.Errorf("the reason is %q", down.Reason)
	}
	if len(down.Unset) != 1 || down.Unset[0].Name != "UNSET_HERE" || down.Unset[0].Line != 4 || down.Unset[0].Path != "upstreams.b.headers.X-Key" {
		t.Errorf("unset: %+v", down.Unset)
	}
	if tools := listOf(t, f.Gateway); !strings.Contains(tools, "a__a") || strings.Contains(tools, "b__b") {
		t.Errorf("the list is %s", tools)
	}
	if answer := callOf(t, f.Gateway, "b__b"); strings.Contains(answer, "UNSET_HERE") || strings.Contains(answer, f.path) {
		t.Errorf("a client learns the configuration: %s", answer)
	}

	set("UNSET_HERE=key\n")
	polltest.Until(t, "b comes up", func() bool { return strings.Contains(listOf(t, f.Gateway), "b__b") })
	if up := f.Upstreams()[1]; up.Unset != nil || up.State != connector.Ready {
		t.Errorf("b is %+v", up)
	}
	callOf(t, f.Gateway, "b__b")
	sessions := b.opened.Load()
	set("")
	polltest.Until(t, "the reload names the variable", func() bool {
		last := f.lastReload.Load()
		return len(last.Kept) == 1 && last.Kept[0].Upstream == "b" && last.Kept[0].Variables[0] == "UNSET_HERE" &&
			strings.HasSuffix(last.Kept[0].Errors[0].Message, "UNSET_HERE is not set; set it before the gateway starts, or in env_file, or write ${UNSET_HERE:-default}")
	})
	// The gauge follows the report.
	const successful = "mcp_gateway_config_last_reload_successful"
	polltest.Until(t, "the gauge says that the reload is not wholly in force", func() bool { return gauge(t, f.Gateway, successful) == "0" })
	if answer := callOf(t, f.Gateway, "b__b"); !strings.Contains(answer, `"result"`) || f.Upstreams()[1].State != connector.Ready || b.opened.Load() != sessions {
		t.Errorf("after a reload without the variable: %s, %+v", answer, f.Upstreams()[1])
	}
	// Another key of the upstream takes effect, and each reload says that the variable is not set.
	f.write(t, "env_file: "+vars+"\nupstreams:\n  a: "+a.entry("")+"\n  b: "+b.entry(`, "headers": {"X-Key": "${UNSET_HERE}"}, "tools": {"deny": ["*"]}`)+"\n")
	polltest.Until(t, "the deny list is in force", func() bool { return !strings.Contains(listOf(t, f.Gateway), "b__b") })
	if last := f.lastReload.Load(); len(last.Kept) != 1 || !slices.Equal(last.Kept[0].Keeps, []string{"connection"}) || !slices.Equal(last.Changed, []string{"b"}) || f.Upstreams()[1].State != connector.Ready {
		t.Errorf("the second reload: %+v", last)
	}
	set("UNSET_HERE=key\n")
	polltest.Until(t, "nothing is kept", func() bool { return f.lastReload.Load().Kept == nil })
	polltest.Until(t, "the gauge says that all is in force", func() bool { return gauge(t, f.Gateway, successful) == "1" })
}

// An envFile that cannot be read takes down its upstream alone, and a running gateway notices when it appears.
func TestMissingEnvFile(t *testing.T) {
	a := newScripted(t, "a")
	vars := filepath.Join(t.TempDir(), "vars.env")
	f := runFile(t, "upstreams:\n  a: "+a.entry("")+"\n  b: {command: /nonexistent/program, envFile: "+vars+"}\n")
	polltest.Until(t, "a is ready", func() bool { return f.Upstreams()[0].State == connector.Ready })
	polltest.Until(t, "b is down", func() bool { return f.Upstreams()[1].State == connector.Down })
	if down := f.Upstreams()[1]; len(down.Unset) != 1 || !strings.HasSuffix(down.Reason, "upstreams.b.envFile: \""+vars+"\" cannot be read: no such file or directory") {
		t.Errorf("b is %+v", down)
	}
	if err := os.WriteFile(vars, []byte("A=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the file is read", func() bool { return f.Upstreams()[1].Unset == nil })
}

// A file of ${file:…} that cannot be read takes down its upstream alone. A running gateway notices when it appears, and a
// reload without it keeps the connection.
func TestMissingFile(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	key := filepath.Join(t.TempDir(), "key")
	f := runFile(t, "upstreams:\n  a: "+a.entry("")+"\n  b: "+b.entry(`, "headers": {"X-Key": "${file:`+key+`}"}`)+"\n")
	polltest.Until(t, "a is ready", func() bool { return f.Upstreams()[0].State == connector.Ready })
	polltest.Until(t, "b is down", func() bool { return f.Upstreams()[1].State == connector.Down })
	const reason = "upstreams.b.headers.X-Key: ${file:%s} cannot be read: no such file or directory"
	if down := f.Upstreams()[1]; len(down.Unset) != 1 || !strings.HasSuffix(down.Reason, fmt.Sprintf(reason, key)) {
		t.Errorf("b is %+v", down)
	}
	if err := os.WriteFile(key, []byte("k\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "b comes up", func() bool { return strings.Contains(listOf(t, f.Gateway), "b__b") })
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the reload names the file", func() bool {
		last := f.lastReload.Load()
		return len(last.Kept) == 1 && last.Kept[0].Upstream == "b" && slices.Equal(last.Kept[0].Keeps, []string{"connection"})
	})
	if answer := callOf(t, f.Gateway, "b__b"); !strings.Contains(answer, `"result"`) {
		t.Errorf("after a reload without the file: %s", answer)
	}
}
