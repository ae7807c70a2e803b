package gateway

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/ruleset"
)

// fromFile is a gateway with a configuration file. loads counts how often the file is
// loaded. If hold is not nil, loading waits until it can receive from hold.
type fromFile struct {
	*Gateway
	path  string
	loads atomic.Int64
	hold  chan struct{}
}

func runFile(t *testing.T, text string) *fromFile {
	t.Helper()
	return runFileLogged(t, text, zap.NewNop())
}

// runFileLogged is runFile with a log.
func runFileLogged(t *testing.T, text string, log *zap.Logger) *fromFile {
	t.Helper()
	dir := t.TempDir()
	f := &fromFile{path: filepath.Join(dir, "gateway.yaml")}
	f.write(t, text)
	source := Source{File: f.path, Load: func(note func(string, []byte)) (*config.Config, error) {
		f.loads.Add(1)
		if f.hold != nil {
			<-f.hold
		}
		cfg, err := config.Load(f.path, os.LookupEnv, ruleset.CheckConditions(), config.WithFiles(note))
		if err == nil {
			cfg.Listen, cfg.Admin.Listen, cfg.StateDir = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(dir, "state")
		}
		return cfg, err
	}}
	cfg, err := source.Load(source.Read.Note)
	if err != nil {
		t.Fatal(err)
	}
	f.Gateway, err = New(Options{Config: cfg, Version: "test", Logger: log, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return f
}

func (f *fromFile) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fromFile) post(t *testing.T) (int, string) {
	t.Helper()
	resp, err := http.Post("http://"+f.AdminAddr()+"/-/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// unchangedAnswer is the answer of a reload that changes nothing. The file may have caused it too.
var unchangedAnswer = regexp.MustCompile(`^\{"status":"unchanged","causes":\[("file",)?"api"(,"file")?\]\}\n$`)

// A bad file changes nothing and is reported with the position of the error. The next good
// file is applied. The test covers edits of the file and requests to the admin address.
func TestRefresh(t *testing.T) {
	u, v := newScripted(t, "u"), newScripted(t, "v")
	f := runFile(t, "upstreams:\n  a: "+u.entry("")+"\n")
	listOf(t, f.Gateway)
	// counted requires counters that exist from the start, since an alert does not see a counter
	// that begins above zero. The number of reads of a file depends on when the system reports
	// its changes.
	counted := func(any bool) {
		t.Helper()
		metrics := page(t, f.Gateway, "/metrics")
		for _, outcome := range []string{"changed", "refused", "same"} {
			line := fmt.Sprintf("mcp_gateway_config_reloads_total{outcome=%q} ", outcome)
			if !strings.Contains(metrics, line) || strings.Contains(metrics, line+"0\n") == any {
				t.Errorf("%s: counted %v, want %v", line, !any, any)
			}
		}
	}
	counted(false)
	if status, body := f.post(t); status != 200 || !unchangedAnswer.MatchString(body) {
		t.Errorf("nothing has changed: %d %s", status, body)
	}
	f.write(t, "upstreams:\n  a: {comand: x}\n")
	status, body := f.post(t)
	if want := `"errors":[{"file":"` + f.path + `","line":2,"column":`; status != 422 || !strings.HasPrefix(body, `{"status":"refused","causes":[`) || !strings.Contains(body, want) {
		t.Errorf("a bad file: %d %s, want %s", status, body, want)
	}
	if answer := callOf(t, f.Gateway, "a__u"); !strings.Contains(answer, "from u") {
		t.Errorf("after a bad file: %s", answer)
	}
	f.write(t, "limits: {max_depth: 99}\nupstreams:\n  a: "+u.entry("")+"\n  b: "+v.entry("")+"\n")
	polltest.Until(t, "the edit is seen", func() bool { return strings.Contains(listOf(t, f.Gateway), "b__v") })
	counted(true)
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	if status, body := f.post(t); status != 422 || !strings.HasPrefix(body, `{"status":"refused","causes":[`) || !strings.Contains(body, `"errors":[{"message":`) || !strings.Contains(body, f.path+": there is no such file any more; put it back") {
		t.Errorf("without a file: %d %s", status, body)
	}
}

// A reload names the keys and the rules that it changed, and its cause, in the log and in the answer. An
// emptied rule file is refused, and its rules stay in force.
func TestReloadsNameWhatChanged(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[]")
	core, logs := observer.New(zap.InfoLevel)
	upstreams := "upstreams: {a: " + newScripted(t, "u").entry("") + "}\n"
	f := runFileLogged(t, upstreams+"policy: {default: allow, files: ["+rules+"]}\n", zap.New(core))
	listOf(t, f.Gateway)
	line := func(message string) (fields map[string]any) {
		t.Helper()
		polltest.Until(t, message, func() bool {
			if found := logs.FilterMessage(message).All(); len(found) > 0 {
				fields = found[0].ContextMap()
			}
			return fields != nil
		})
		logs.TakeAll()
		return fields
	}
	const reloaded, refused = "configuration reloaded", "the configuration was not reloaded; the one before stays in force"
	all := func(more map[string]any) map[string]any {
		fields := map[string]any{"outcome": "changed", "added": []any{}, "removed": []any{}, "changed": []any{}, "other_keys": true, "keys": []any{"policy.rules"},
			"rules_added": []any{}, "rules_removed": []any{}, "rules_changed": []any{}, "causes": []any{"file"}}
		maps.Copy(fields, more)
		return fields
	}
	differ := func(what string, want, got map[string]any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}

	write("- {name: no-u, effect: deny, what: {tools: [a__u]}}\n")
	differ("a rule more", all(map[string]any{"rules_added": []any{"no-u"}}), line(reloaded))
	polltest.Until(t, "the tool is denied", func() bool { return strings.Contains(callOf(t, f.Gateway, "a__u"), "unknown tool") })
	write("")
	differ("an emptied file", map[string]any{"errors": []any{rules + ":1:1: the file has no rules; write [] if it shall have none"}, "causes": []any{"file"}}, line(refused))
	if answer := callOf(t, f.Gateway, "a__u"); !strings.Contains(answer, "unknown tool") {
		t.Errorf("a denied tool after its file was emptied: %s", answer)
	}
	write("- {name: no-u, effect: confirm, what: {tools: [a__u]}}\n")
	differ("another effect", all(map[string]any{"rules_changed": []any{"no-u"}}), line(reloaded))
	f.RequestReload(CauseSIGHUP)
	differ("a signal", all(map[string]any{"outcome": "same", "other_keys": false, "keys": []any{}, "causes": []any{"sighup"}}), line(reloaded))
	f.write(t, upstreams+"policy: {default: deny}\n")
	differ("without the file", all(map[string]any{"keys": []any{"policy.default", "policy.rules", "policy.files"}, "rules_removed": []any{"no-u"}}), line(reloaded))

	report := reloadReport(Changes{Other: true, Rules: config.RuleChanges{Removed: slices.Repeat([]string{"r"}, 22)}}, nil)
	if n := len(report.RulesRemoved); n != 21 || report.RulesRemoved[20] != "and 2 more" {
		t.Errorf("of 22 rules %q are named", report.RulesRemoved)
	}
}

// A single further reload serves all requests that arrive during a reload.
func TestRefreshesAreOne(t *testing.T) {
	f := runFile(t, "upstreams:\n  a: "+newScripted(t, "u").entry("")+"\n")
	listOf(t, f.Gateway)
	f.hold = make(chan struct{})
	before := f.loads.Load()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := f.ReloadSource(t.Context()); err != nil {
			t.Error(err)
		}
	})
	polltest.Until(t, "it is loaded", func() bool { return f.loads.Load() == before+1 })
	for range 10 {
		f.RequestReload(CauseSIGHUP)
	}
	f.hold <- struct{}{}
	close(f.hold)
	wg.Wait()
	polltest.Until(t, "it is loaded once more", func() bool { return f.loads.Load() == before+2 })
	if _, err := f.ReloadSource(t.Context()); err != nil { // runs after all earlier requests
		t.Error(err)
	}
	if n := f.loads.Load() - before; n > 3 {
		t.Errorf("the file was loaded %d times, want 3: at the start, for ten requests together, and at the end", n)
	}
}

func TestRefreshOfTheDemo(t *testing.T) {
	g, _ := start(t, "", true)
	resp, err := http.Post("http://"+g.AdminAddr()+"/-/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusConflict {
		t.Errorf("status %s", resp.Status)
	}
	if _, err := g.Reload(t.Context(), g.cfg); err == nil || !strings.Contains(err.Error(), "demo") {
		t.Errorf("error %v", err)
	}
}
