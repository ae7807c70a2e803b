package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// TestRepairedFaults connects the strict client, with every revision that it supports, to a server that sends every violation of the corpus, through a
// gateway that repairs. The client accepts every list and every result. A result that cannot be repaired becomes an error that names the violation.
func TestRepairedFaults(t *testing.T) {
	files := faults(t)
	server := httptest.NewServer(faulty(files))
	t.Cleanup(server.Close)
	upstreams := rig.Upstreams{"results": {"url": server.URL + "/results/mcp", "conformance": "repair"}}
	for _, f := range files {
		if strings.HasSuffix(f.method, "/list") {
			upstreams[f.name] = rig.Config{"url": server.URL + "/" + f.name + "/mcp", "conformance": "repair"}
		}
	}
	gateway := rig.StartOne(t, "it reads the metrics of one process", rig.Config{"upstreams": upstreams})
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			steps, used := listSteps(), []fault(nil)
			for _, f := range files {
				if step, ok := f.step("results__", "results+"); ok {
					steps, used = append(steps, step), append(used, f)
				}
			}
			transcript := client.V1At(revision).Run(t, client.Target{URL: gateway.URL}, steps)
			for i, outcome := range transcript.Steps[:len(kinds)] {
				if got := client.Decode[client.List](t, outcome).Items; len(got) < 4 {
					t.Errorf("%s: %d items: %v", steps[i].Method, len(got), got)
				}
			}
			for i, f := range used {
				f.check(t, transcript.Steps[len(kinds)+i])
			}
		})
	}
	t.Run("counted", func(t *testing.T) {
		text := metrics(t, gateway)
		for _, kind := range []string{
			"wrong_type", "missing_member", "null_member", "misplaced_member", "unknown_block_type", "invalid_base64", "invalid_mime_type",
			"invalid_annotation", "structured_alone", "structured_missing", "structured_mismatch",
		} {
			if !strings.Contains(text, `mcp_gateway_nonconformance_total{kind="`+kind+`",upstream="results"}`) {
				t.Errorf("the metric counts no %s", kind)
			}
		}
	})
}

// TestInvalidItemsDoNotBreakLists connects the strict client to servers with every violation of the corpus and to one without, through a gateway that
// repairs nothing. The client accepts every list and sees the valid items.
func TestInvalidItemsDoNotBreakLists(t *testing.T) {
	files := faults(t)
	server := httptest.NewServer(faulty(files))
	t.Cleanup(server.Close)
	upstreams := rig.Upstreams{"right": {"url": startNewest(t, client.Legacy)}}
	for _, f := range files {
		if strings.HasSuffix(f.method, "/list") {
			upstreams[f.name] = rig.Config{"url": server.URL + "/" + f.name + "/mcp"}
		}
	}
	gateway := rig.StartGateway(t, rig.Config{"upstreams": upstreams})
	for _, revision := range []string{"2024-11-05", "2025-11-25"} {
		transcript := client.V1At(revision).Run(t, client.Target{URL: gateway.URL}, listSteps())
		for _, outcome := range transcript.Steps[:len(kinds)] {
			if outcome.Error != nil {
				t.Errorf("%s, %s: error %d: %s", revision, outcome.Method, outcome.Error.Code, outcome.Error.Message)
				continue
			}
			if got := string(outcome.Result); !strings.Contains(got, "right") {
				t.Errorf("%s, %s: %s", revision, outcome.Method, got)
			}
		}
	}
}

// TestStrictClientRefusesFaults verifies that the client of TestRepairedFaults is strict.
func TestStrictClientRefusesFaults(t *testing.T) {
	files := faults(t)
	server := httptest.NewServer(faulty(files))
	t.Cleanup(server.Close)
	var steps []client.Step
	for _, f := range files {
		if step, ok := f.step("", ""); ok {
			steps = append(steps, step)
		}
	}
	refused := 0
	for _, outcome := range client.V1().Run(t, client.Target{URL: server.URL + "/results/mcp"}, steps).Steps {
		if outcome.Error != nil {
			refused++
		}
	}
	if refused < len(steps)/2 {
		t.Errorf("the client rejects %d of %d results", refused, len(steps))
	}
}

// fault is a file of the corpus of violations.
type fault struct {
	name, method, tool, sent string
	hopeless                 bool // neither the call nor a result can report the violation
}

// faults reads the corpus.
func faults(t *testing.T) []fault {
	t.Helper()
	names, err := filepath.Glob("../../internal/conform/testdata/faults/*.txtar")
	if err != nil || len(names) < 60 {
		t.Fatalf("the corpus has %d files: %v", len(names), err)
	}
	var out []fault
	for _, path := range names {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := fault{name: strings.TrimSuffix(filepath.Base(path), ".txtar")}
		for _, file := range archive.Files {
			text := strings.TrimSpace(string(file.Data))
			switch file.Name {
			case "method":
				f.method = text
			case "tool":
				f.tool = text
			case "sent":
				f.sent = strings.ReplaceAll(text, "corpus:asked", "corpus:"+f.name)
			case "repair":
				f.hopeless = strings.HasPrefix(text, `{"code":-32603,`)
			}
		}
		out = append(out, f)
	}
	return out
}

// step returns the request that the fault answers.
func (f fault) step(name, uri string) (client.Step, bool) {
	switch f.method {
	case "tools/call":
		return client.Step{Method: f.method, Params: map[string]any{"name": name + f.name, "arguments": map[string]any{}}}, true
	case "prompts/get":
		return client.Step{Method: f.method, Params: map[string]any{"name": name + f.name}}, true
	case "resources/read":
		return client.Step{Method: f.method, Params: map[string]any{"uri": uri + "corpus:" + f.name}}, true
	case "completion/complete":
		ref := map[string]any{"type": "ref/prompt", "name": name + f.name}
		return client.Step{Method: f.method, Params: map[string]any{"ref": ref, "argument": map[string]any{"name": "a", "value": ""}}}, true
	}
	return client.Step{}, false
}

func (f fault) check(t *testing.T, outcome client.Outcome) {
	t.Helper()
	const ours = "violates the MCP specification"
	switch e := outcome.Error; {
	case f.hopeless && (e == nil || e.Code != -32603 || !strings.Contains(e.Message, ours)):
		t.Errorf("%s: %s %+v, want the gateway's error", f.name, outcome.Result, e)
	case !f.hopeless && e != nil:
		t.Errorf("%s: error %d: %s", f.name, e.Code, e.Message)
	}
}

// faulty is a hand-written server that sends the corpus. It answers calls with the files under results, and lists with the files named for the lists.
type faulty []fault

func (s faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := raw.Read(string(body))
	if err != nil || m.Member("id") == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	member, value := "result", s.result(name, m)
	if value == "" {
		member, value = "error", `{"code":-32601,"message":"unknown"}`
		if m.Method() == "server/discover" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}
	w.Header().Set("Mcp-Session-Id", name)
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"jsonrpc":"2.0","id":`+m.Member("id")+`,"`+member+`":`+value+`}`)
}

func (s faulty) result(name string, m raw.Message) string {
	switch m.Method() {
	case "initialize":
		return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{}},"serverInfo":{"name":"faulty","version":"1"}}`
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		if name == "results" {
			return s.list(m.Method())
		}
		for _, f := range s {
			if f.name == name && f.method == m.Method() {
				return f.sent
			}
		}
		return s.empty(m.Method())
	}
	var params struct {
		Name, URI string
		Ref       struct{ Name string }
	}
	if json.Unmarshal([]byte(m.Member("params")), &params) != nil {
		return ""
	}
	asked := params.Name + strings.TrimPrefix(params.URI, "corpus:") + params.Ref.Name
	for _, f := range s {
		if f.name == asked && f.method == m.Method() {
			return f.sent
		}
	}
	return ""
}

// list returns the tools or other items whose calls return the violations of results.
func (s faulty) list(method string) string {
	var items []string
	for _, f := range s {
		switch {
		case f.method == "tools/call" && method == "tools/list":
			item := `{"inputSchema":{"type":"object"}}`
			if f.tool != "" {
				item = f.tool
			}
			var tool map[string]any
			if err := json.Unmarshal([]byte(item), &tool); err != nil {
				panic(err) // the file is part of this repository
			}
			tool["name"] = f.name
			text, err := json.Marshal(tool)
			if err != nil {
				panic(err) // see above
			}
			items = append(items, string(text))
		case (f.method == "prompts/get" || f.method == "completion/complete") && method == "prompts/list":
			items = append(items, fmt.Sprintf(`{"name":%q}`, f.name))
		case f.method == "resources/read" && method == "resources/list":
			items = append(items, fmt.Sprintf(`{"uri":"corpus:%s","name":%q}`, f.name, f.name))
		case f.method == "resources/read" && method == "resources/templates/list":
			items = append(items, fmt.Sprintf(`{"uriTemplate":"corpus:%s/{x}","name":%q}`, f.name, f.name))
		}
	}
	return strings.Replace(s.empty(method), "[]", "["+strings.Join(items, ",")+"]", 1)
}

func (s faulty) empty(method string) string {
	member := map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}
	return `{"` + member[method] + `":[]}`
}
