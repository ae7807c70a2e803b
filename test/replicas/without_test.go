package replicas

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// withoutStore is three replicas that share keys and no store.
type withoutStore struct {
	r       *rig.Replicas
	servers map[string]*server
}

// initialize is what a legacy client sends that can be asked.
const initialize = `{"protocolVersion":"` + raw.Legacy + `","capabilities":{"elicitation":{}},"clientInfo":{"name":"raw","version":"1"}}`

// session opens a legacy session at the first replica, and returns a client of it for each replica.
func (w *withoutStore) session(t *testing.T) []*raw.Client {
	t.Helper()
	first := raw.Join(w.r.Gateways[0].URL, "", nil)
	answer, err := first.Send(t.Context(), "initialize", initialize)
	if err != nil {
		t.Fatal(err)
	}
	var out []*raw.Client
	for _, g := range w.r.Gateways {
		out = append(out, raw.Join(g.URL, answer.Header.Get("Mcp-Session-Id"), nil))
	}
	w.post(t, out[0], `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return out
}

// modern returns a modern client for each replica.
func (w *withoutStore) modern(t *testing.T) []*raw.Client {
	t.Helper()
	var out []*raw.Client
	for _, g := range w.r.Gateways {
		out = append(out, at(t, g.URL, raw.Modern))
	}
	return out
}

// post posts a notification or a response, which every replica accepts.
func (w *withoutStore) post(t *testing.T, c *raw.Client, body string) {
	t.Helper()
	if answer, err := c.Post(t.Context(), http.Header{}, body); err != nil || answer.Status != http.StatusAccepted {
		t.Fatalf("HTTP %d %s, %v", answer.Status, answer.Response.Text, err)
	}
}

// Replicas that share keys and no store serve everything that needs no live thing.
func TestWithoutStore(t *testing.T) {
	w := &withoutStore{}
	w.r, w.servers = startAll(t, nil, rig.Config{"policy": rig.Config{"default": "allow", "rules": []rig.Config{
		{"name": "ask-first", "effect": "confirm", "what": rig.Config{"tools": []string{"*__confirmed"}}},
		{"name": "once", "effect": "allow", "what": rig.Config{"tools": []string{"*__limited"}}, "limit": rig.Config{"rate": "1/h"}},
	}}})
	session, modern := w.session(t), w.modern(t)
	everywhere := func(t *testing.T) {
		t.Helper()
		for _, clients := range [][]*raw.Client{session, modern} {
			w.servedEverywhere(t, clients)
		}
		// The state of a modern server is that of the client.
		call := park(t.Context(), t, modern[0], "modern__ask")
		for i, c := range modern {
			if answer := retry(t.Context(), t, c, call); !accepted(answer) {
				t.Errorf("replica %d answers a retry with %s", i+1, answer.Response.Text)
			}
		}
	}
	everywhere(t)
	for i := range w.r.Gateways {
		if err := w.r.Gateways[i].Process.Stop(within); err != nil {
			t.Error(err)
		}
		w.r.StartAgain(t, i)
	}
	everywhere(t)

	tests := map[string]func(*testing.T){
		"the stream of a client over HTTP+SSE": w.postElsewhere, "the stream of a call": w.resumeCall, "another stream": w.resumeStream, "the answer to a question": w.answer, "a cancellation": w.cancel,
		"a subscription": w.subscription, "the end of a session": w.delete, "a parked call": w.parked, "a consent": w.consent, "a limit": w.limit, "a task": taskWithoutStore,
		"a long result": resultWithoutStore,
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, tests[name])
	}
	documented := rowsOf(t, "Without a store, requests about state of another replica have these results:")
	if tested := slices.Sorted(maps.Keys(tests)); !slices.Equal(documented, tested) {
		t.Errorf("docs/operations.md lists %q, tested is %q", documented, tested)
	}
}

// rowsOf returns the first cells of the table after a line of docs/operations.md.
func rowsOf(t *testing.T, line string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), line+"\n\n")
	table, _, _ := strings.Cut(after, "\n\n")
	var out []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \|`).FindAllStringSubmatch(table, -1)[1:] {
		out = append(out, row[1])
	}
	slices.Sort(out)
	return out
}

// ttl is a member of lists that depends on their age.
var ttl = regexp.MustCompile(`"ttlMs":\d+`)

// servedEverywhere sends all that needs no live thing to each replica.
func (w *withoutStore) servedEverywhere(t *testing.T, clients []*raw.Client) {
	t.Helper()
	for _, request := range []struct{ method, params, want string }{
		{"tools/list", `{}`, `"legacy__record"`},
		{"resources/list", `{}`, touched},
		{"prompts/list", `{}`, `"modern__hello"`},
		{"tools/call", `{"name":"modern__record","arguments":{"token":"here"}}`, `"here"`},
		{"tools/call", `{"name":"legacy__record","arguments":{"token":"there"}}`, `"there"`},
		{"resources/read", fmt.Sprintf(`{"uri":%q}`, "legacy+"+touched), `"now"`},
		{"prompts/get", `{"name":"legacy__hello"}`, `"hello"`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"modern__hello"},"argument":{"name":"name","value":"x"}}`, `"completed"`},
	} {
		first := ""
		for i, c := range clients {
			m, err := c.Call(t.Context(), request.method, request.params)
			if err != nil || !strings.Contains(m.Text, request.want) {
				t.Errorf("replica %d answers %s %s of a %s client with %s (%v)", i+1, request.method, request.params, c.Revision(), m.Text, err)
			}
			if got := ttl.ReplaceAllString(m.Member("result"), ""); i == 0 {
				first = got
			} else if strings.HasSuffix(request.method, "/list") && got != first {
				t.Errorf("%s differs among replicas:\n%s\n%s", request.method, first, got)
			}
		}
	}
}

func (w *withoutStore) resumeCall(t *testing.T) {
	session := w.session(t)
	s, id := w.begin(t, session[0], "wait")
	defer w.end(t, session[0], s, id)
	answer, err := session[1].Resume(t.Context(), s.LastEvent())
	if err != nil || answer.Status != http.StatusBadRequest || !strings.Contains(answer.Response.Text, "Last-Event-ID names no event of this session") {
		t.Errorf("the stream of a call is resumed elsewhere with HTTP %d %s, %v", answer.Status, answer.Response.Text, err)
	}
}

// begin begins a call of the legacy server, and reads the first message of its answer.
func (w *withoutStore) begin(t *testing.T, c *raw.Client, tool string) (s *raw.Stream, id int) {
	t.Helper()
	id = 1000
	s, err := c.Begin(t.Context(), id, "tools/call", fmt.Sprintf(`{"name":"legacy__%s","arguments":{},"_meta":{"progressToken":"p"}}`, tool))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if m, err := s.Next(); err != nil || m.Method() == "" {
		t.Fatalf("the call begins with %s, %v", m.Text, err)
	}
	return s, id
}

// end cancels a call of the tool wait.
func (w *withoutStore) end(t *testing.T, c *raw.Client, s *raw.Stream, id int) {
	t.Helper()
	w.post(t, c, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	polltest.Until(t, "the call ends", func() bool { return w.servers["legacy"].waiting.Load() == 0 })
	s.Close()
}

func (w *withoutStore) resumeStream(t *testing.T) {
	session := w.session(t)
	subscribe(t.Context(), t, session[0])
	s := listen(t, session[0], "")
	w.heard(t, s, touched)
	moved := listen(t, session[1], s.LastEvent())
	lists := map[string]bool{}
	for len(lists) < 3 {
		m, err := moved.Next()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(m.Method(), "/list_changed") {
			lists[m.Method()] = true
		} else {
			t.Errorf("the stream has %s", m.Text)
		}
	}
}

func (w *withoutStore) postElsewhere(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.r.Gateways[0].SSE, nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	endpoint := ""
	for lines := bufio.NewScanner(stream.Body); endpoint == "" && lines.Scan(); {
		endpoint, _ = strings.CutPrefix(lines.Text(), "data: ")
		if !strings.HasPrefix(endpoint, "/") {
			endpoint = ""
		}
	}
	for i, want := range []int{http.StatusAccepted, http.StatusNotFound} {
		answer, err := http.Post(strings.TrimSuffix(w.r.Gateways[i].SSE, "/sse")+endpoint, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("replica %d answers HTTP %d, want %d", i+1, answer.StatusCode, want)
		}
	}
}

func listen(t *testing.T, c *raw.Client, lastEvent string) *raw.Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := c.Listen(ctx, lastEvent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); s.Close() })
	return s
}

// heard updates a resource of the legacy server until a stream has heard of it. It returns the other messages that the stream has.
func (w *withoutStore) heard(t *testing.T, s *raw.Stream, uri string) (others []string) {
	t.Helper()
	if err := w.servers["legacy"].update(t.Context(), uri); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Method() == "notifications/resources/updated" && strings.Contains(m.Text, uri) {
			return others
		}
		others = append(others, m.Text)
	}
}

func (w *withoutStore) subscription(t *testing.T) {
	session := w.session(t)
	subscribe(t.Context(), t, session[0])
	if _, err := session[1].Call(t.Context(), "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, "legacy+"+other)); err != nil {
		t.Fatal(err)
	}
	here, elsewhere := listen(t, session[0], ""), listen(t, session[1], "")
	w.heard(t, here, touched)
	for _, m := range w.heard(t, elsewhere, other) {
		if strings.Contains(m, touched) {
			t.Errorf("a stream at another replica has %s", m)
		}
	}
}

func (w *withoutStore) answer(t *testing.T) {
	session := w.session(t)
	s, err := session[0].Begin(t.Context(), 1, "tools/call", `{"name":"legacy__ask","arguments":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask, err := s.Next()
	if err != nil || ask.Method() != "elicitation/create" {
		t.Fatalf("the call begins with %s, %v", ask.Text, err)
	}
	w.post(t, session[1], fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, ask.Member("id")))
	w.post(t, session[0], fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`, ask.Member("id")))
	if m, err := s.Next(); err != nil || !strings.Contains(m.Text, `"accept"`) {
		t.Errorf("the call ends with %s, %v", m.Text, err)
	}
}

func (w *withoutStore) cancel(t *testing.T) {
	session := w.session(t)
	s, id := w.begin(t, session[0], "wait")
	w.post(t, session[1], fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	w.servedEverywhere(t, session)
	if n := w.servers["legacy"].waiting.Load(); n != 1 {
		t.Errorf("%d calls run after a cancellation at another replica", n)
	}
	w.end(t, session[0], s, id)
}

func (w *withoutStore) delete(t *testing.T) {
	session := w.session(t)
	w.servedEverywhere(t, session)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.r.Gateways[0].URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Mcp-Session-Id", session[0].Session())
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	for i, want := range []int{http.StatusNotFound, http.StatusOK, http.StatusOK} {
		if answer, err := session[i].Send(t.Context(), "tools/list", `{}`); err != nil || answer.Status != want {
			t.Errorf("after DELETE at the first replica, replica %d answers HTTP %d %s, %v", i+1, answer.Status, answer.Response.Text, err)
		}
	}
}

func (w *withoutStore) parked(t *testing.T) {
	modern := w.modern(t)
	call := park(t.Context(), t, modern[0], "legacy__ask")
	wantFault(t, "a retry elsewhere", retry(t.Context(), t, modern[1], call), -32602, "it was not issued for this request, or has expired")
	if answer := retry(t.Context(), t, modern[0], call); !accepted(answer) {
		t.Errorf("a retry at the replica of the call gets %s", answer.Response.Text)
	}
}

func (w *withoutStore) consent(t *testing.T) {
	modern := w.modern(t)
	call := park(t.Context(), t, modern[0], "modern__confirmed")
	wantFault(t, "a consent elsewhere", retry(t.Context(), t, modern[1], call), -32602, "it was already used; send the request again without it")
	if answer := retry(t.Context(), t, modern[0], call); !strings.Contains(answer.Response.Text, `"done"`) {
		t.Errorf("a consent at the replica that has asked gets %s", answer.Response.Text)
	}
}

func (w *withoutStore) limit(t *testing.T) {
	for i, c := range w.modern(t) {
		for n, want := range []string{`"done"`, `"retryAfter"`} {
			answer, err := c.Send(t.Context(), "tools/call", `{"name":"modern__limited","arguments":{},"_meta":{`+c.Meta()+`}}`)
			if err != nil || !strings.Contains(answer.Response.Text, want) {
				t.Errorf("replica %d answers call %d with %s, %v", i+1, n+1, answer.Response.Text, err)
			}
		}
	}
}

// A long result is read only at the replica that has kept it.
func resultWithoutStore(t *testing.T) {
	server := startServer(t, "texts", true)
	server.mcp.AddTool(&mcp.Tool{Name: "long", InputSchema: map[string]any{"type": "object"}}, tool(func() string { return strings.Repeat("word ", 2000) }))
	r := rig.StartReplicas(t, replicas, rig.Config{
		"upstreams": rig.Upstreams{"texts": {"url": server.url}}, "profiles": rig.Config{"p": rig.Config{"max_result": "4KiB"}},
	})
	var uri string
	for i, g := range r.Gateways {
		c, err := raw.Open(t.Context(), g.URL+"/p", raw.Legacy)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			m, err := c.Call(t.Context(), "tools/call", `{"name":"texts__long","arguments":{}}`)
			if uri = resultURI.FindString(m.Text); err != nil || uri == "" {
				t.Fatalf("no result was kept: %.300s, %v", m.Text, err)
			}
		}
		m, err := c.Call(t.Context(), "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
		fault, _ := err.(*raw.Fault)
		if i == 0 && !strings.Contains(m.Text, "word") || i > 0 && (fault == nil || fault.Code != -32002) {
			t.Errorf("replica %d answers %.300s, %v", i+1, m.Text, err)
		}
	}
}

func taskWithoutStore(t *testing.T) {
	for _, era := range []rig.Era{rig.Legacy, rig.Modern} {
		r := rig.StartReplicas(t, replicas, rig.Config{
			"upstreams": rig.Upstreams{"jobs": {"era": era, "url": rig.Tasks(t, era)}}, "auth": principals, "policy": rig.Config{"default": "allow"},
		})
		c := clientOfTasks(t, r, era)
		id := c.begin(0, 600)
		if era == rig.Modern { // its server knows all tasks
			if got, _ := c.about(1, "tasks/get", id); got.TaskID != id || got.Status != "working" {
				t.Errorf("tasks/get at another replica: %+v", got)
			}
			continue
		}
		for replica, want := range []int{1, 0, 0} {
			if got := read(t, c.ask(replica, "tasks/list", "", "")).Tasks; len(got) != want {
				t.Errorf("tasks/list at replica %d: %+v", replica+1, got)
			}
		}
		_, err := c.send(1, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
		if fault, ok := err.(*raw.Fault); !ok || fault.Code != -32602 {
			t.Errorf("tasks/get at another replica: %v", err)
		}
	}
}
