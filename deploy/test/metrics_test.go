package deploy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	goimage "image"
	"image/png"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// targetLabels are labels that the scraper adds: Prometheus itself, or the
// operator with its ServiceMonitor.
var targetLabels = []string{"job", "instance", "namespace", "pod", "service", "endpoint", "container"}

// exposed has the metrics of running gateways: the values of each label of each
// metric.
type exposed map[string]map[string]map[string]bool

// TestQueries checks every query of the dashboard, the alerts and the guide against
// the metrics of running gateways, which were used in all ways that the queries
// are about.
func TestQueries(t *testing.T) {
	seen := useGateways(t)
	t.Run("alerts", func(t *testing.T) {
		names := map[string]bool{}
		for _, group := range alertsOf(t) {
			for _, rule := range group.Rules {
				if rule.Alert == "" || names[rule.Alert] {
					t.Errorf("the alert %q has no name or an ambiguous one", rule.Alert)
				}
				names[rule.Alert] = true
				if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" {
					t.Errorf("%s lacks summary, description or severity", rule.Alert)
				}
				result := seen.check(t, rule.Alert, rule.Expr)
				for text := range maps.Values(rule.Annotations) {
					for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
						if !slices.Contains(result, m[1]) {
							t.Errorf("%s: an annotation names the label %s, but the result has %v", rule.Alert, m[1], result)
						}
						seen.checkNeverEmpty(t, rule.Alert, rule.Expr, m[1])
					}
				}
			}
		}
		if len(names) == 0 {
			t.Error("there are no alerts")
		}
	})
	t.Run("guide", func(t *testing.T) { seen.checkGuide(t, string(read(t, "docs", "operations.md"))) })
	t.Run("dashboard", func(t *testing.T) {
		d := readDashboard(t)
		queries := 0
		linked := map[string]bool{} // panels whose points link to traces
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				queries++
				linked[p.Title] = linked[p.Title] || target.Exemplar && strings.Contains(target.Expr, "mcp_gateway_request_duration_seconds_bucket")
				result := seen.check(t, "panel "+p.Title, target.Expr)
				for _, m := range regexp.MustCompile(`{{\s*(\w+)\s*}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
					if !slices.Contains(result, m[1]) {
						t.Errorf("panel %s: the legend names the label %s, but the result has %v", p.Title, m[1], result)
					}
				}
			}
		}
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			m := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Definition)
			if m == nil || v.Query.Query != v.Definition {
				t.Errorf("variable %s: %q is not label_values(selector, label), or differs from its query", v.Name, v.Definition)
				continue
			}
			queries++
			seen.check(t, "variable "+v.Name, fmt.Sprintf("sum by (%s) (%s)", m[2], m[1]))
		}
		for _, title := range []string{"Time to the answer", "Tool calls by upstream, 95 %"} {
			if !linked[title] {
				t.Errorf("panel %s shows no exemplars of the durations, so it does not link to traces", title)
			}
		}
		if queries < 20 {
			t.Errorf("found only %d queries", queries)
		}
	})
}

type dashboard struct {
	UID    string `json:"uid"`
	Title  string `json:"title"`
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
			Exemplar     bool   `json:"exemplar"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
			Query      struct {
				Query string `json:"query"`
			} `json:"-"`
			RawQuery json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(read(t, "deploy", "grafana", "dashboards", "mcp-gateway.json"), &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %s has no query", p.Title)
		}
	}
	for i := range d.Templating.List {
		v := &d.Templating.List[i]
		if v.Type == "query" {
			if err := json.Unmarshal(v.RawQuery, &v.Query); err != nil {
				t.Errorf("variable %s: %v", v.Name, err)
			}
		}
	}
	return d
}

// useGateways has gateways do what the queries are about and returns their metrics.
func useGateways(t *testing.T) exposed {
	t.Helper()
	serveDemo(t, 8081, 9091)
	demo := "http://127.0.0.1:8081/mcp"
	old := legacy(t, demo, "2025-03-26")
	old.call("tools/list", map[string]any{})
	old.call("tools/call", map[string]any{"name": "clock__now", "arguments": map[string]any{}})
	// The result has a link, which this revision does not define.
	old.call("tools/call", map[string]any{"name": "notes__add", "arguments": map[string]any{"title": "t", "body": "b"}})
	// The prompt has a required argument, which is missing.
	old.call("prompts/get", map[string]any{"name": "notes__summarize"})
	old.call("tools/call", map[string]any{"name": "nobody__has", "arguments": map[string]any{}})
	callAndAnswer(t, demo, "cafe__order", map[string]any{"drink": "tea", "size": "small"})
	crossOrigin(t, demo)

	between := startFaultyProxy(t, demo)
	pidFile := filepath.Join(t.TempDir(), "pid")
	chained := serveConfig(t, fmt.Sprintf(`
listen: 127.0.0.1:8082
admin: {listen: 127.0.0.1:9092}
state_dir: %q
policy:
  rules:
    - {name: once-an-hour, effect: allow, what: {tools: [clock__search]}, limit: {rate: 1/h, burst: 1}}
    - {name: ask, effect: confirm, what: {tools: [cafe__menu]}}
profiles:
  short: {max_result: 4KiB, images: {max: 16}}
upstreams:
  front: {url: "%s/mcp", era: legacy, prefix: "", required: true}
  absent: {url: "http://127.0.0.1:1/mcp"}
  odd: {url: "%s/mcp", era: legacy, validate_input: true, sanitize: [ansi]}
  mortal: {pin: true, command: sh, args: ["-c", 'echo $$ >"$1"; exec %s %s', sh, %q], env: {MEMORY_FILE_PATH: %q}, required: true}
`, t.TempDir(), between.url, serveNonconforming(t), npm(".bin", "node"), npm("@modelcontextprotocol", "server-memory", "dist", "index.js"), pidFile, filepath.Join(t.TempDir(), "memory")), 9092, "PATH="+os.Getenv("PATH"))
	chained.until("ready", func() bool { return status("http://127.0.0.1:9092/readyz") == http.StatusOK })
	front := "http://127.0.0.1:8082/mcp"
	modern(t, front, "tools/call", map[string]any{"name": "clock__now", "arguments": map[string]any{}})
	for range 2 {
		modern(t, front, "tools/call", map[string]any{"name": "clock__search", "arguments": map[string]any{"query": "berlin"}})
	}
	// A client of this revision cannot ask its user.
	legacy(t, front, "2025-03-26").call("tools/call", map[string]any{"name": "cafe__menu", "arguments": map[string]any{}})
	for _, n := range []any{1, "one"} { // only the number is valid
		modern(t, front, "tools/call", map[string]any{"name": "odd__say", "arguments": map[string]any{"n": n}})
	}
	modern(t, front+"/short", "tools/call", map[string]any{"name": "odd__say", "arguments": map[string]any{"n": 1}})
	for how, tool := range map[string]string{
		"abort": "clock__now",  // retried, because the tool is read-only
		"gone":  "clock__now",  // retried in a new session
		"break": "cafe__order", // must not be retried
	} {
		between.next.Store(how)
		modern(t, front, "tools/call", map[string]any{"name": tool, "arguments": map[string]any{}})
		if left := between.next.Load(); left != "" {
			t.Fatalf("no call met the fault %v", left)
		}
	}

	serveConfig(t, fmt.Sprintf(`
listen: 127.0.0.1:8083
admin: {listen: 127.0.0.1:9093}
telemetry: {audit: {file: %q}}
public_url: http://127.0.0.1:8083
auth: {mode: [api-key, jwt], api_keys: [{id: ci, sha256: "`+sixtyFour+`"}], jwt: [{issuer: "http://127.0.0.1:1"}]}
upstreams: {absent: {url: "http://127.0.0.1:1/mcp"}}
`, filepath.Join(t.TempDir(), "audit.jsonl")), 9093)
	modern(t, "http://127.0.0.1:8083/mcp", "tools/list", map[string]any{}) // without credentials

	cert, key := selfSigned(t)
	serveConfig(t, fmt.Sprintf(`
listen: 127.0.0.1:8084
admin: {listen: 127.0.0.1:9094}
tls: {cert: %q, key: %q}
auth: {mode: api-key, api_keys: [{id: ci, sha256: "`+sixtyFour+`", expires: 2099-01-01}]}
state_dir: %q
upstreams:
  absent: {url: "https://127.0.0.1:1/mcp", client_cert: {cert: %[1]q, key: %[2]q}}
  granted: {url: "http://127.0.0.1:1/mcp", auth: {kind: user}}
`, cert, key, t.TempDir()), 9094)

	serveConfig(t, fmt.Sprintf(`
listen: 127.0.0.1:8085
admin: {listen: 127.0.0.1:9095}
state_dir: %q
bridge: {keys: ["`+sixtyFour+`"]}
store: {kind: redis, url: "redis://127.0.0.1:1"}
upstreams: {absent: {url: "http://127.0.0.1:1/mcp"}}
`, t.TempDir()), 9095)

	seen := exposed{}
	seen.scrape(t, "http://127.0.0.1:9095/metrics")
	seen.scrape(t, "http://127.0.0.1:9094/metrics")
	seen.scrape(t, "http://127.0.0.1:9093/metrics")
	seen.scrape(t, "http://127.0.0.1:9091/metrics")
	pid, err := strconv.Atoi(strings.TrimSpace(string(readFile(t, pidFile))))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	chained.until("served by a new process", func() bool {
		seen.scrape(t, "http://127.0.0.1:9092/metrics")
		return seen["mcp_gateway_upstream_restarts_total"] != nil
	})
	return seen
}

// crossOrigin sends a request as a page of another origin would.
func crossOrigin(t *testing.T, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "https://elsewhere.example")
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Fatalf("a request from another origin gets %s", resp.Status)
	}
}

// faultyProxy forwards everything to a gateway. It fails the next tools/call in the
// way that next says.
type faultyProxy struct {
	url  string
	next atomic.Value // string: "", abort, break or gone
}

func startFaultyProxy(t *testing.T, target string) *faultyProxy {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	s := new(faultyProxy)
	s.next.Store("")
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host}) },
		Transport:     client.Transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			switch s.next.Swap("") {
			case "abort", "break":
				panic(http.ErrAbortHandler)
			case "gone":
				http.Error(w, "no such session", http.StatusNotFound)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = proxy.ErrorLog
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// serveNonconforming serves a legacy server without sessions. It declares an
// extension that the gateway does not relay. One tool lacks a required member, and
// the other answers with control sequences.
func serveNonconforming(t *testing.T) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, goimage.NewGray(goimage.Rect(0, 0, 32, 32))); err != nil {
		t.Fatal(err)
	}
	square := base64.StdEncoding.EncodeToString(file.Bytes())
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"extensions":{"com.example/odd":{}}},"serverInfo":{"name":"odd","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"bad"},{"name":"say","inputSchema":{"type":"object","properties":{"n":{"type":"number"}}}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"\u001b[31mred"},{"type":"text","text":"` + strings.Repeat("long ", 1000) + `"},{"type":"image","mimeType":"image/png","data":"` + square + `"}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		switch err := json.NewDecoder(r.Body).Decode(&m); {
		case err != nil: // a GET has no body
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case results[m.Method] == "":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, results[m.Method])
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// scrape adds the metrics of one endpoint.
func (e exposed) scrape(t *testing.T, url string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, resp.Status)
	}
	textParser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := textParser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	for name, family := range families {
		names := []string{name}
		var le []string
		if family.GetType().String() == "HISTOGRAM" {
			names, le = []string{name + "_bucket", name + "_sum", name + "_count"}, []string{"le"}
		}
		for _, name := range names {
			if e[name] == nil {
				e[name] = map[string]map[string]bool{}
			}
			for _, l := range le {
				e[name][l] = map[string]bool{}
			}
			for _, metric := range family.GetMetric() {
				for _, pair := range metric.GetLabel() {
					if e[name][pair.GetName()] == nil {
						e[name][pair.GetName()] = map[string]bool{}
					}
					e[name][pair.GetName()][pair.GetValue()] = true
				}
			}
		}
	}
}

// check parses a query, checks its metrics, labels and label values against the
// exposed metrics, and returns the labels that its result may have.
func (e exposed) check(t *testing.T, where, query string) []string {
	t.Helper()
	query = strings.ReplaceAll(query, "$__rate_interval", "5m")
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, query)
		return nil
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			e.checkSelector(t, where, n)
		case *parser.AggregateExpr:
			if has := e.labelsOf(n.Expr); !n.Without {
				for _, label := range n.Grouping {
					if !slices.Contains(has, label) {
						t.Errorf("%s: by (%s), but the metric has only %v", where, label, has)
					}
				}
			}
		}
		return nil
	})
	return e.labelsOf(expr)
}

func (e exposed) checkSelector(t *testing.T, where string, s *parser.VectorSelector) {
	t.Helper()
	has, ok := e[s.Name]
	if !ok {
		t.Errorf("%s: no running gateway exposes %s", where, s.Name)
		return
	}
	for _, m := range s.LabelMatchers {
		if m.Name == model.MetricNameLabel || slices.Contains(targetLabels, m.Name) {
			continue
		}
		values, ok := has[m.Name]
		if !ok {
			t.Errorf("%s: %s has no label %s, only %v", where, s.Name, m.Name, slices.Sorted(maps.Keys(has)))
			continue
		}
		if strings.HasPrefix(m.Value, "$") {
			continue // a variable of the dashboard
		}
		for _, value := range strings.Split(m.Value, "|") {
			if !values[value] {
				t.Errorf("%s: %s has no %s=%q, only %v", where, s.Name, m.Name, value, slices.Sorted(maps.Keys(values)))
			}
		}
	}
}

// checkNeverEmpty checks that a query selects no series in which a label is empty, as the upstream of calls that the
// gateway refuses itself: a text that names the label would be about nothing.
func (e exposed) checkNeverEmpty(t *testing.T, where, query, label string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, query)
		return
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok || !e[s.Name][label][""] {
			return nil
		}
		if !slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == label && !m.Matches("") }) {
			t.Errorf("%s: an annotation names the label %s, and %s may have an empty one", where, label, s)
		}
		return nil
	})
}

// labelsOf returns the labels that the result of an expression may have.
func (e exposed) labelsOf(expr parser.Node) []string {
	switch n := expr.(type) {
	case *parser.VectorSelector:
		return append(slices.Collect(maps.Keys(e[n.Name])), targetLabels...)
	case *parser.AggregateExpr:
		if !n.Without {
			return n.Grouping
		}
	}
	var all []string
	for child := range parser.ChildrenIter(expr) {
		all = append(all, e.labelsOf(child)...)
	}
	return all
}

// checkGuide checks the operations guide: every metric and query in it must be
// exposed, and it must name every metric of the gateway.
func (e exposed) checkGuide(t *testing.T, guide string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^```promql\n(.*?)^```$").FindAllStringSubmatch(guide, -1) {
		e.check(t, "query of the guide", m[1])
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`mcp_gateway_[a-z_]+({[a-z_]+="[^"]*"})?`).FindAllString(guide, -1) {
		name, matchers, _ := strings.Cut(m, "{")
		named[name] = true
		if e[name] == nil && e[name+"_bucket"] == nil {
			t.Errorf("the guide names %s, which no running gateway exposes", name)
		} else if e[name] != nil && matchers != "" {
			label, _, _ := strings.Cut(matchers, "=")
			if e[name][label] == nil {
				t.Errorf("the guide names %s, but the metric has no label %s", m, label)
			}
		}
	}
	for name := range e {
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, end); e[base+"_bucket"] != nil {
				name = base
			}
		}
		if strings.HasPrefix(name, "mcp_gateway_") && !named[name] {
			t.Errorf("the guide does not name %s", name)
		}
	}
	for _, group := range alertsOf(t) {
		for _, rule := range group.Rules {
			if !strings.Contains(guide, "`"+rule.Alert+"`") {
				t.Errorf("the guide does not say what to do about %s", rule.Alert)
			}
		}
	}
}

// alertsOf returns the groups of all rule files.
func alertsOf(t *testing.T) []rulefmt.RuleGroup {
	t.Helper()
	var all []rulefmt.RuleGroup
	for _, name := range ruleFiles(t) {
		groups, errs := rulefmt.Parse(read(t, name), false, model.UTF8Validation)
		for _, err := range errs {
			t.Errorf("%s: %v", name, err)
		}
		all = append(all, groups.Groups...)
	}
	return all
}

// ruleFiles returns the rule files that prometheus.yml loads, as paths of the
// repository.
func ruleFiles(t *testing.T) []string {
	t.Helper()
	return []string{"deploy/prometheus/rules/mcp-gateway.yaml"}
}
