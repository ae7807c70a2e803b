package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
)

// longServer is an upstream with one tool, which returns the argument `text` many times.
func longServer(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Arguments struct{ Text string } }
		}
		if json.Unmarshal(body, &m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"long","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"say","inputSchema":{"type":"object"}}]}`,
			"tools/call": `{"content":[{"type":"text","text":` + string(wire.String(strings.Repeat(m.Params.Arguments.Text+"\n", 2000))) + `}]}`,
		}[m.Method]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// longClient sends requests with a key to a path.
type longClient struct {
	t   *testing.T
	url string
	key string
}

func (c longClient) send(method, params string) string {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("X-Api-Key", c.key)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(body)
}

var resultID = regexp.MustCompile(`gateway\+result://([a-z2-7]{32})`)

// say calls the tool, and returns the id of what is kept.
func (c longClient) say(text string) (answer, id string) {
	c.t.Helper()
	answer = c.send("tools/call", `{"name":"long__say","arguments":{"text":"`+text+`"}}`)
	if m := resultID.FindStringSubmatch(answer); m != nil {
		id = m[1]
	}
	return answer, id
}

func (c longClient) read(id, query string) string {
	return c.send("resources/read", `{"uri":`+string(wire.String("gateway+result://"+id+query))+`}`)
}

// longConfig is a configuration with two principals and these profiles.
func longConfig(url, profiles, more string) string {
	return `
auth: {mode: api-key, api_keys: [{id: ann, sha256: ` + digestOf("ann") + `}, {id: bob, sha256: ` + digestOf("bob") + `}]}
policy: {default: allow}
upstreams: {long: {url: "` + url + `"}}
profiles: ` + profiles + more
}

// A reload changes the bounds, and what a profile that shortens nothing any more has kept is gone.
func TestReloadOfResults(t *testing.T) {
	url := longServer(t)
	both := longConfig(url, "{p: {max_result: 4KiB}, q: {max_result: 4KiB}}", "")
	g, _ := start(t, both, false)
	p := longClient{t, "http://" + g.Addr() + "/mcp/p", "ann"}
	q := longClient{t, "http://" + g.Addr() + "/mcp/q", "ann"}
	_, inP := p.say("hello")
	_, inQ := q.say("hello")
	if inP == "" || inQ == "" || !strings.Contains(p.read(inP, ""), "hello") || !strings.Contains(p.read(inQ, ""), "not found") {
		t.Fatalf("ids %q, %q", inP, inQ)
	}
	metrics := func() string { return page(t, g, "/metrics") }
	if !strings.Contains(metrics(), "mcp_gateway_results_kept 2\n") {
		t.Error("2 results are not in the metrics")
	}
	if _, err := reloaded(t, g, longConfig(url, "{p: {max_result: 4KiB}, q: {}}", "")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(metrics(), "mcp_gateway_results_kept 1\n") || !strings.Contains(p.read(inP, ""), "hello") {
		t.Error("a reload does not keep what can still be read, or keeps what cannot")
	}
	if answer, id := q.say("hello"); id != "" || strings.Count(answer, "hello") != 2000 {
		t.Errorf("a profile without max_result: %.200s", answer)
	}
	if list := q.send("tools/list", "{}"); strings.Contains(list, "read_result") {
		t.Errorf("the list of a profile without max_result: %s", list)
	}
	if _, err := reloaded(t, g, longConfig(url, "{p: {max_result: 8KiB}, q: {max_result: 4KiB}}", "\nresults: {per_principal: 1MiB, memory: 1MiB, ttl: 1m}")); err != nil {
		t.Fatal(err)
	}
	if answer, _ := p.say("other"); len(answer) < 6000 || !strings.Contains(answer, "is kept for 1m.") {
		t.Errorf("under new bounds: %d bytes, …%s", len(answer), answer[len(answer)-900:])
	}
	if !strings.Contains(q.read(inQ, ""), "not found") {
		t.Error("a result of a profile that shortened none for a while is back")
	}
}

// A result that other tools gave, in a script too, is readable while its owner may use all of these. It
// survives changes of what does not matter to it: other rules, shown names, and how tools are called.
func TestKeptResultsFollowRights(t *testing.T) {
	url := longServer(t)
	config := func(profile, rules string, upstreams ...string) string {
		text := "\nauth: {mode: api-key, api_keys: [{id: ann, sha256: " + digestOf("ann") + "}]}\npolicy: {default: allow, rules: [" + rules + "]}\nprofiles: {p: {max_result: 4KiB" + profile + "}}\nupstreams:\n"
		for _, u := range upstreams {
			text += "  " + u + `: {url: "` + url + "\"}\n"
		}
		return text
	}
	const search, denyB = ", catalog: search, scripts: true", "{name: no, effect: deny, what: {tools: [b__say]}}"
	g, _ := start(t, config(search, "", "a", "b"), false)
	ann := longClient{t, "http://" + g.Addr() + "/mcp/p", "ann"}
	ids := make(map[string]string)
	for name, params := range map[string]string{
		"a directly":  `{"name":"a__say","arguments":{"text":"kept1"}}`,
		"a":           `{"name":"call_tool","arguments":{"name":"a__say","arguments":{"text":"kept2"}}}`,
		"b":           `{"name":"call_tool","arguments":{"name":"b__say","arguments":{"text":"kept3"}}}`,
		"a and b":     `{"name":"run_script","arguments":{"script":"call(\"b__say\", text = \"kept4\"); return call(\"a__say\", text = \"kept4\")"}}`,
		"a by script": `{"name":"run_script","arguments":{"script":"return call(\"a__say\", text = \"kept5\")"}}`,
	} {
		answer := ann.send("tools/call", params)
		m := resultID.FindStringSubmatch(answer)
		if m == nil {
			t.Fatalf("%s: %s", name, answer)
		}
		ids[name] = m[1]
	}
	ofA := map[string]bool{"a directly": true, "a": true, "a by script": true}
	for _, tt := range []struct {
		change, config string
		readable       func(name string) bool
	}{
		{"nothing", config(search, "", "a", "b"), func(string) bool { return true }},
		{"a rule", config(search, denyB, "a", "b"), func(name string) bool { return ofA[name] }},
		{"no rule", config(search, "", "a", "b"), func(string) bool { return true }},
		{"short names", config(search+", names: short, upstreams: [a, b]", "", "a", "b"), func(string) bool { return true }},
		{"no scripts, no search", config("", "", "a", "b"), func(string) bool { return true }},
		{"a selection", config(search+", upstreams: [a], names: short", "", "a", "b"), func(name string) bool { return ofA[name] }},
		{"no upstream b", config(search, "", "a"), func(name string) bool { return ofA[name] }},
	} {
		if _, err := reloaded(t, g, tt.config); err != nil {
			t.Fatal(err)
		}
		for name, id := range ids {
			if answer := ann.read(id, ""); strings.Contains(answer, "kept") != tt.readable(name) {
				t.Errorf("%s: the result of %s: %.300s", tt.change, name, answer)
			}
		}
	}
}

// The answers to ann do not depend on the results that bob keeps, or that she keeps in another
// profile: no id, count or byte does. She may even know their ids.
func TestResultsOfOthersChangeNothing(t *testing.T) {
	url := longServer(t)
	for seed := range uint64(4) {
		var worlds [2][]string
		for world := range worlds {
			g, end := start(t, longConfig(url, "{p: {max_result: 4KiB}, q: {max_result: 4KiB}}", ""), false)
			ann := longClient{t, "http://" + g.Addr() + "/mcp/p", "ann"}
			others := []longClient{{t, ann.url, "bob"}, {t, "http://" + g.Addr() + "/mcp/q", "ann"}}
			choices := rand.New(rand.NewPCG(seed, 1)) // of ann: the same in both worlds
			noise := rand.New(rand.NewPCG(seed, 2))
			var own, foreign []string
			shown := func(answer string) string {
				for i, id := range own {
					answer = strings.ReplaceAll(answer, id, fmt.Sprint("OWN", i))
				}
				for _, id := range foreign {
					answer = strings.ReplaceAll(answer, id, "FOREIGN")
				}
				return requestIDs.ReplaceAllString(answer, "")
			}
			for step := range 25 {
				// In one world the others keep results, of the same texts too. In the other nobody does.
				id := strings.Repeat(string(rune('a'+step)), 32)
				if world == 0 {
					_, id = others[noise.IntN(2)].say(fmt.Sprint("text ", noise.IntN(4)))
				}
				foreign = append(foreign, id)
				queries := []string{"", "?lines=3", "?grep=text", "?pointer=/a", "?lines=0", "/1?range=0-9"}
				query := queries[choices.IntN(len(queries))]
				var answer string
				switch what := choices.IntN(6); {
				case what < 2:
					var id string
					if answer, id = ann.say(fmt.Sprint("text ", choices.IntN(4))); id != "" {
						own = append(own, id)
					}
				case what == 2 && len(own) > 0:
					answer = ann.read(own[choices.IntN(len(own))], query)
				case what == 3:
					answer = ann.send("tools/call", `{"name":"read_result","arguments":{"uri":"gateway+result://`+foreign[choices.IntN(len(foreign))]+`","lines":"1"}}`)
				case what == 4:
					answer = ann.send([]string{"tools/list", "resources/list", "resources/templates/list"}[choices.IntN(3)], "{}")
				default:
					answer = ann.read(foreign[choices.IntN(len(foreign))], query)
				}
				worlds[world] = append(worlds[world], shown(answer))
			}
			end()
		}
		if diff := cmp.Diff(worlds[0], worlds[1]); diff != "" {
			t.Errorf("seed %d: with (-) and without (+) the others:\n%s", seed, diff)
		}
	}
}

// A result that one replica keeps is read at another one: by the principal that has it, in the profile that it was kept in.
func TestResultsAmongReplicas(t *testing.T) {
	all, ends := startReplicasOf(t, 2, false, longConfig(longServer(t), "{p: {max_result: 4KiB}, q: {max_result: 4KiB}}", ""))
	at := func(replica int, profile, key string) longClient {
		return longClient{t, "http://" + all[replica].Addr() + "/mcp/" + profile, key}
	}
	for _, g := range all {
		polltest.Until(t, "the upstream is connected", func() bool { return len(g.waitingFor(reasonForAll)) == 0 })
	}
	_, id := at(0, "p", "ann").say("hello")
	if id == "" {
		t.Fatal("no result is kept")
	}
	for name, other := range map[string]longClient{"principal": at(1, "p", "bob"), "profile": at(1, "q", "ann")} {
		if got := other.read(id, ""); !strings.Contains(got, "not found") {
			t.Errorf("another %s reads %.200s", name, got)
		}
	}
	ann := at(1, "p", "ann")
	for query, want := range map[string]string{"?range=0-4": `"text":"hello"`, "?lines=2-2": `"text":"hello\n"`, "?grep=hell": "hello"} {
		if got := ann.read(id, query); !strings.Contains(got, want) {
			t.Errorf("%s: %.300s", query, got)
		}
	}
	if _, again := ann.say("hello"); again != id {
		t.Errorf("an equal result has the id %s at the other replica, want %s", again, id)
	}
	ends[0]()
	if got := ann.read(id, "?range=0-4"); !strings.Contains(got, `"text":"hello"`) {
		t.Errorf("after the end of the replica that kept it: %.300s", got)
	}
}
