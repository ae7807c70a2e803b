package reload

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/rig"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace replaces a file as editors do: it writes a new file and renames it.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// post reloads through the admin address.
func post(g *rig.Gateway) (status int, body string, err error) {
	client := http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Post(g.Admin+"/-/reload", "", nil)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func run(t *testing.T, file string) *rig.Gateway {
	t.Helper()
	return rig.StartGatewayOn(t, netns.Addr(), netns.Addr(), file)
}

// A mounted ConfigMap has a configuration and a file of rules. Swapping one link changes both.
func TestConfigMap(t *testing.T) {
	a, b := remote(t, "a", true, nil), remote(t, "b", false, nil)
	dir := t.TempDir()
	// mount installs another version of the ConfigMap, as a kubelet does.
	mount := func(version, upstreams, rules string) {
		write(t, filepath.Join(dir, version, "gateway.yaml"), "policy: {files: [rules.yaml]}\nupstreams: {"+upstreams+"}\n")
		write(t, filepath.Join(dir, version, "rules.yaml"), rules)
		symlink(t, version, filepath.Join(dir, "..data_tmp"))
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	mount("..1", fmt.Sprintf("a: {url: %q}", a), "[]")
	symlink(t, "..data/gateway.yaml", filepath.Join(dir, "gateway.yaml"))
	symlink(t, "..data/rules.yaml", filepath.Join(dir, "rules.yaml"))
	g := run(t, filepath.Join(dir, "gateway.yaml"))
	wantTools(t, g.URL, "a__echo")
	both := fmt.Sprintf("a: {url: %q}, b: {url: %q}", a, b)
	mount("..2", both, "[]")
	wantTools(t, g.URL, "a__echo", "b__echo")
	mount("..3", both, `[{name: no-a, effect: deny, what: {upstreams: [a]}}]`)
	wantTools(t, g.URL, "b__echo")
}

// The test uses every way to reload, with invalid files between valid ones.
func TestReloadOfAFile(t *testing.T) {
	a, b := remote(t, "a", true, nil), remote(t, "b", false, nil)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	one := fmt.Sprintf("upstreams:\n  a: {url: %q}\n", a)
	two := one + fmt.Sprintf("  b: {url: %q}\n", b)
	write(t, file, one)
	g := run(t, file)
	wantTools(t, g.URL, "a__echo")
	replace(t, file, two)
	wantTools(t, g.URL, "a__echo", "b__echo")

	replace(t, file, two+"  c: {comand: x}\n")
	const place = "gateway.yaml:4:7: upstreams.c.comand: unknown key"
	polltest.UntilNil(t, "the bad file is reported with its place", func() error {
		if out := g.Process.Output(); !strings.Contains(out, place) {
			return fmt.Errorf("log:\n%s", out)
		}
		return nil
	})
	if status, body, err := post(g); err != nil || status != http.StatusUnprocessableEntity || !strings.Contains(body, `"line":4,"column":7`) {
		t.Errorf("an invalid file: %d %s %v", status, body, err)
	}
	wantTools(t, g.URL, "a__echo", "b__echo")

	write(t, file, one)
	wantTools(t, g.URL, "a__echo")
	replace(t, file, two)
	if err := syscall.Kill(g.Process.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	wantTools(t, g.URL, "a__echo", "b__echo")
	replace(t, file, "listen: 127.0.0.1:1\nlimits: {max_depth: 99}\n"+one)
	status, body, err := post(g)
	if err != nil || status != http.StatusOK || !strings.Contains(body, `"needs_restart":["limits.max_depth"]`) {
		t.Errorf("keys that need a restart: %d %s %v", status, body, err)
	}
	wantTools(t, g.URL, "a__echo")
}
