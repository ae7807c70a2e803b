package gateway

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/store"
	"mcpgateway/internal/wire"
)

// attackTest is a gateway with two principals, ann and bob, who have an API key each. Its
// methods take "ann@coding" for ann in the profile coding, which has what the default profile
// has.
type attackTest struct {
	t    *testing.T
	g    *Gateway
	logs *observer.ObservedLogs
	http *http.Client
	stop func() // ends the gateway
}

func startAttack(t *testing.T, more string) *attackTest {
	t.Helper()
	return startAttackOn(t, newAskingServer(t), more, nil)
}

// startAttackOn starts a gateway in front of the asking server at a URL. Gateways with one store are
// replicas.
func startAttackOn(t *testing.T, url, more string, shared store.Store, change ...func(*config.Config)) *attackTest {
	t.Helper()
	cfg, err := config.Parse("gateway.yaml", []byte(more+`
auth: {mode: api-key, api_keys: [{id: ann, sha256: "`+digestOf(keyOf("ann"))+`"}, {id: bob, sha256: "`+digestOf(keyOf("bob"))+`"}]}
policy: {default: allow}
profiles: {coding: {}}
asks: {label: false}
upstreams:
  legacy: {url: "`+url+`/legacy", era: legacy}
  modern: {url: "`+url+`/modern", era: modern}
`), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen, cfg.Admin.Listen, cfg.StateDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	for _, f := range change {
		f(cfg)
	}
	core, logs := observer.New(zap.WarnLevel)
	g, err := New(Options{Config: cfg, Version: "test", Logger: zap.New(core), Store: shared})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	a := &attackTest{t: t, g: g, logs: logs, http: &http.Client{Transport: &http.Transport{}}}
	a.stop = sync.OnceFunc(func() {
		a.http.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(a.stop)
	return a
}

// keyOf returns a principal's API key.
func keyOf(who string) string {
	subject, _, _ := strings.Cut(who, "@")
	return "the key of " + subject
}

// at returns the URL at which a principal uses the gateway.
func (a *attackTest) at(who string) string {
	at := "http://" + a.g.Addr() + "/mcp"
	if _, profile, ok := strings.Cut(who, "@"); ok {
		at += "/" + profile
	}
	return at
}

func digestOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// do sends one HTTP request and returns its status, headers and body. For a stream it returns
// the last message.
func (a *attackTest) do(verb, who, body string, header ...string) (int, http.Header, string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), verb, a.at(who), strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", keyOf(who))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if verb == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := a.http.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			a.t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(text)
	}
	last := ""
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if id, ok := strings.CutPrefix(in.Text(), "id: "); ok {
			resp.Header.Set("Event", id)
		}
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			last = data
		}
	}
	return resp.StatusCode, resp.Header, last
}

// modern sends a request of a modern client that declares every capability.
func (a *attackTest) modern(who, method, name, params string) string {
	a.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params)
	_, _, text := a.do(http.MethodPost, who, body, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	return text
}

// ask calls the tool "ask". retry calls it with an answer and a state.
func (a *attackTest) ask(who, upstream string) string {
	return a.modern(who, "tools/call", upstream+"__ask", `"name":"`+upstream+`__ask","arguments":{"n":1}`)
}

func (a *attackTest) retry(who, upstream, arguments, state string) string {
	key := map[string]string{"legacy": "ask-1", "modern": "k"}[upstream]
	return a.modern(who, "tools/call", upstream+"__ask", fmt.Sprintf(`"name":"%s__ask","arguments":%s,"requestState":%q,"inputResponses":{%q:{"action":"accept"}}`,
		upstream, arguments, state, key))
}

// firstEvent calls the tool "ask" and returns the id of the first event of its answer. The
// connection then ends, and the call continues.
func (a *attackTest) firstEvent(who, session string) string {
	a.t.Helper()
	id, _ := a.firstAsk(who, session, false)
	return id
}

// firstAsk calls the tool "ask" and returns the ids of an event of its answer and, if question is
// set, of the question in it. The connection then ends, and the call continues.
func (a *attackTest) firstAsk(who, session string, question bool) (event, ask string) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	defer cancel()
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"legacy__ask","arguments":{}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.at(who), strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"X-API-Key": keyOf(who), "Mcp-Session-Id": session, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
	} {
		req.Header.Set(name, value)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if id, ok := strings.CutPrefix(in.Text(), "id: "); ok {
			if event = id; !question {
				return event, ""
			}
		}
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && strings.Contains(data, wire.MethodElicit) {
			return event, string(wire.ValueOf(wire.Raw(data)).Get("id").Raw())
		}
	}
	a.t.Fatal("no event with an id")
	return "", ""
}

// legacy sends a message of a legacy client.
func (a *attackTest) legacy(who, session, body string) (int, http.Header, string) {
	a.t.Helper()
	return a.do(http.MethodPost, who, body, "Mcp-Session-Id", session)
}

func (a *attackTest) session(who string) string {
	a.t.Helper()
	_, header, text := a.do(http.MethodPost, who, strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	if header.Get("Mcp-Session-Id") == "" {
		a.t.Fatalf("initialize: %s", text)
	}
	// The first list waits for the upstreams.
	a.legacy(who, header.Get("Mcp-Session-Id"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	return header.Get("Mcp-Session-Id")
}

// member reads a member of the result in a response.
func (a *attackTest) member(text string, path ...string) string {
	a.t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		a.t.Fatalf("%v: %s", err, text)
	}
	for _, name := range append([]string{"result"}, path...) {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	out, ok := v.(string)
	if !ok {
		a.t.Fatalf("no %v in %s", path, text)
	}
	return out
}

// refused checks that the log has one reason, for this principal, and no part of the request.
func (a *attackTest) refused(t *testing.T, who, what, reason, brought string) {
	t.Helper()
	entries := a.logs.TakeAll()
	subject, profile, _ := strings.Cut(who, "@")
	said := func(field string) string { text, _ := entries[0].ContextMap()[field].(string); return text }
	if len(entries) != 1 || entries[0].Message != what || said("reason") != reason || said("principal") != subject || said("profile") != profile {
		t.Errorf("the log has %+v, want %q with the reason %q", entries, what, reason)
	}
	if text := fmt.Sprintf("%+v", entries); len(brought) > 8 && strings.Contains(text, brought[len(brought)-8:]) {
		t.Errorf("the log shows the forged value: %s", text)
	}
}

// changed returns a text with one character near its end replaced.
func changed(text string) string {
	at := len(text) - 6
	other := map[bool]string{true: "B", false: "A"}[text[at] == 'A']
	return text[:at] + other + text[at+1:]
}

const otherArguments, sameArguments = `{"n":2}`, `{"n":1}`

// sharedKeys are the keys that replicas share.
const sharedKeys = `bridge: {keys: ["000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"]}`

// The tests below return values that the gateway issued in every forbidden way. The answer of
// the gateway reveals nothing, and the log has the reason.

func TestAttacksOnRequestStates(t *testing.T) {
	a, replica, other := startAttack(t, sharedKeys), startAttack(t, sharedKeys), startAttack(t, "")
	for upstream, kind := range map[string]bridge.StateKind{"legacy": bridge.Parked, "modern": bridge.UpstreamState} {
		state := a.member(a.ask("ann", upstream), "requestState")
		foreign := other.member(other.ask("ann", upstream), "requestState")
		expired := a.g.sealer.Seal(bridge.State{
			Kind: kind, Recipient: map[bridge.StateKind]string{bridge.Parked: a.g.replica, bridge.UpstreamState: upstream}[kind], Expires: time.Now().Add(-time.Second),
		}, bridge.BindingOf(&call.Call{
			Method: "tools/call", Params: wire.Raw(`{"name":"` + upstream + `__ask","arguments":` + sameArguments + `}`),
			Principal: &call.Principal{Subject: "ann", AuthMethod: "api-key"},
		}))
		type attempt struct{ name, who, arguments, state, reason string }
		attempts := []attempt{
			{"tampered", "ann", sameArguments, changed(state), "the request state was changed"},
			{"cut", "ann", sameArguments, state[:9], "the request state is malformed"},
			{"expired", "ann", sameArguments, expired, "the request state has expired"},
			{"another principal's", "bob", sameArguments, state, "the request state belongs to another principal"},
			{"another profile's", "ann@coding", sameArguments, state, "the request state belongs to another principal"},
			{"for another request", "ann", otherArguments, state, "the request state belongs to another request"},
			{"another key's", "ann", sameArguments, foreign, "the request state is sealed with a key that this replica does not have"},
		}
		if kind == bridge.Parked {
			there := replica.member(replica.ask("ann", upstream), "requestState")
			attempts = append(attempts, attempt{"another replica's", "ann", sameArguments, there, "the call is parked at another replica"})
		}
		for _, tc := range attempts {
			t.Run(upstream+" upstream, "+tc.name, func(t *testing.T) {
				got := a.retry(tc.who, upstream, tc.arguments, tc.state)
				if !strings.Contains(got, `"code":-32602`) || !strings.Contains(got, "it was not issued for this request, or has expired") {
					t.Errorf("got %s", got)
				}
				a.refused(t, tc.who, "request state refused", tc.reason, tc.state)
			})
		}
		t.Run(upstream+" upstream, used", func(t *testing.T) {
			// The refused requests did not consume the state.
			if got := a.retry("ann", upstream, sameArguments, state); !strings.Contains(got, `"text":"accept"`) {
				t.Fatalf("the state has become invalid: %s", got)
			}
			got := a.retry("ann", upstream, sameArguments, state)
			if kind == bridge.UpstreamState { // the upstream decides what a repetition means
				if !strings.Contains(got, `"text":"accept"`) {
					t.Errorf("repeated: %s", got)
				}
				return
			}
			if !strings.Contains(got, `"code":-32602`) || !strings.Contains(got, "it was already used, or its call has ended") {
				t.Errorf("got %s", got)
			}
			a.refused(t, "ann", "request state refused", "there is no such call: it has ended, or its result was given out", state)
		})
	}
}

func TestAttacksOnTaskIDs(t *testing.T) {
	a, other := startAttack(t, ""), startAttack(t, "")
	begin := func(a *attackTest, upstream, session string) string {
		job := `"name":"` + upstream + `__job","arguments":{}`
		if upstream == "modern" {
			return a.member(a.modern("ann", "tools/call", "modern__job", job), "taskId")
		}
		_, _, text := a.legacy("ann", session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+job+`,"task":{}}}`)
		return a.member(text, "task", "taskId")
	}
	sessions := map[string]string{"ann": a.session("ann"), "bob": a.session("bob"), "ann@coding": a.session("ann@coding")}
	ids := map[string]string{"legacy": begin(a, "legacy", sessions["ann"]), "modern": begin(a, "modern", "")}
	foreign := map[string]string{"legacy": begin(other, "legacy", other.session("ann")), "modern": begin(other, "modern", "")}
	for era, id := range ids {
		get := func(who, id string) string {
			if era == "modern" {
				return a.modern(who, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
			}
			_, _, text := a.legacy(who, sessions[who], fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":%q}}`, id))
			return text
		}
		for _, tc := range []struct{ name, who, id, reason string }{
			{"tampered", "ann", changed(id), "the request state was changed"},
			{"the upstream's own", "ann", "native", "the request state is malformed"},
			{"another principal's", "bob", id, "the request state belongs to another principal"},
			{"another profile's", "ann@coding", id, "the request state belongs to another principal"},
			{"another key's", "ann", foreign[era], "the request state is sealed with a key that this replica does not have"},
			{"a task of the other era", "ann", ids[map[string]string{"legacy": "modern", "modern": "legacy"}[era]], "the task was begun in the other era"},
		} {
			t.Run(era+", "+tc.name, func(t *testing.T) {
				if got := get(tc.who, tc.id); !strings.Contains(got, `"code":-32602,"message":"unknown task`) {
					t.Errorf("got %s", got)
				}
				a.refused(t, tc.who, "task id refused", tc.reason, tc.id)
			})
		}
		if got := get("ann", id); !strings.Contains(got, `"status":"working"`) {
			t.Errorf("%s: the task was forgotten: %s", era, got)
		}
	}
	const list = `{"jsonrpc":"2.0","id":3,"method":"tasks/list"}`
	for who, want := range map[string]bool{"ann": true, "bob": false, "ann@coding": false} {
		if _, _, text := a.legacy(who, sessions[who], list); strings.Contains(text, ids["legacy"]) != want || !strings.Contains(text, `"tasks":[`) {
			t.Errorf("the tasks of %s: %s", who, text)
		}
	}
}

func TestAttacksOnSessionIDs(t *testing.T) {
	a, brief := startAttack(t, ""), startAttack(t, "limits: {session_idle: 1ms}")
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	const gone = "there is no such session: it has ended, or never was"
	session, ended, elsewhere := a.session("ann"), a.session("ann"), brief.session("ann")
	if status, _, _ := a.do(http.MethodDelete, "ann", "", "Mcp-Session-Id", ended); status != http.StatusNoContent {
		t.Fatalf("DELETE: %d", status)
	}
	for _, tc := range []struct{ name, who, session, reason string }{
		{"tampered", "ann", changed(session), gone},
		{"another principal's", "bob", session, "the session belongs to another principal"},
		{"another profile's", "ann@coding", session, "the session belongs to another profile"},
		{"ended", "ann", ended, gone},
		{"another gateway's", "ann", elsewhere, gone},
	} {
		for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			t.Run(tc.name+", "+verb, func(t *testing.T) {
				status, _, text := a.do(verb, tc.who, list, "Mcp-Session-Id", tc.session)
				if status != http.StatusNotFound || !strings.Contains(text, "session not found") {
					t.Errorf("got %d %s", status, text)
				}
				a.refused(t, tc.who, "session id refused", tc.reason, tc.session)
			})
		}
	}
	if status, _, text := a.legacy("ann", session, list); status != http.StatusOK {
		t.Errorf("the session has become invalid: %d %s", status, text)
	}
	t.Run("expired", func(t *testing.T) {
		// Repeated requests would exhaust the rate limit of the log line.
		polltest.Until(t, "the session has expired", func() bool {
			return strings.Contains(page(t, brief.g, "/metrics"), `mcp_gateway_sessions{era="legacy"} 0`)
		})
		brief.logs.TakeAll()
		if status, _, text := brief.legacy("ann", elsewhere, list); status != http.StatusNotFound {
			t.Errorf("got %d %s", status, text)
		}
		brief.refused(t, "ann", "session id refused", gone, elsewhere)
	})
}

// With shared keys every replica serves a session, and refuses what the one that opened it refuses.
func TestAttacksOnSealedSessionIDs(t *testing.T) {
	a, b := startAttack(t, sharedKeys), startAttack(t, sharedKeys)
	other := startAttack(t, `bridge: {keys: ["`+strings.Repeat("00", 32)+`"]}`)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	const gone = "there is no such session: it has ended, or never was"
	session, coding, ended := a.session("ann"), a.session("ann@coding"), a.session("ann")
	if status, _, _ := b.do(http.MethodDelete, "ann", "", "Mcp-Session-Id", ended); status != http.StatusNoContent {
		t.Fatalf("DELETE: %d", status)
	}
	verbs := []string{http.MethodPost, http.MethodGet, http.MethodDelete}
	for i, tc := range []struct{ name, who, session, reason string }{
		{"tampered", "ann", changed(session), gone},
		{"truncated", "ann", session[:len(session)-1], gone},
		{"another principal's", "bob", session, "the session belongs to another principal"},
		{"another principal's, of a profile", "bob@coding", coding, "the session belongs to another principal"},
		{"another profile's", "ann@coding", session, "the session belongs to another profile"},
		{"a profile's", "ann", coding, "the session belongs to another profile"},
		{"ended", "ann", ended, gone},
		{"without keys", "ann", startAttack(t, "").session("ann"), gone},
		{"of other keys", "ann", other.session("ann"), "the session id is sealed with a key that this replica does not have"},
	} {
		for range 2 { // more lines with one message would not be logged
			verb := verbs[i%len(verbs)]
			i++
			t.Run(tc.name+", "+verb, func(t *testing.T) {
				status, _, text := b.do(verb, tc.who, list, "Mcp-Session-Id", tc.session)
				if status != http.StatusNotFound || !strings.Contains(text, "session not found") {
					t.Errorf("got %d %s", status, text)
				}
				b.refused(t, tc.who, "session id refused", tc.reason, tc.session)
			})
		}
	}
	for who, session := range map[string]string{"ann": session, "ann@coding": coding} {
		if status, _, text := b.legacy(who, session, list); status != http.StatusOK || !strings.Contains(text, `"tools":[{`) {
			t.Errorf("%s: the session is not served: %d %s", who, status, text)
		}
	}
}

func TestAttacksOnEventIDs(t *testing.T) {
	a := startAttack(t, "")
	session, second, bobs, inProfile := a.session("ann"), a.session("ann"), a.session("bob"), a.session("ann@coding")
	// The call runs until it is cancelled.
	id, others := a.firstEvent("ann", session), a.firstEvent("bob", bobs)
	for who, session := range map[string]string{"ann": session, "bob": bobs} {
		defer a.legacy(who, session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	}
	const none = "Last-Event-ID names no event of this session"
	for _, tc := range []struct{ name, who, session, id string }{
		{"tampered", "ann", session, changed(id)},
		{"of no event", "ann", session, id + "0"},
		{"without form", "ann", session, "7"},
		{"of another session of one's own", "ann", second, id},
		{"another principal's", "ann", session, others},
		{"another profile's", "ann@coding", inProfile, id},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, _, text := a.do(http.MethodGet, tc.who, "", "Mcp-Session-Id", tc.session, "Last-Event-ID", tc.id)
			if status != http.StatusBadRequest || !strings.Contains(text, none) {
				t.Errorf("got %d %s", status, text)
			}
			a.refused(t, tc.who, "event id refused", none, tc.id)
		})
	}
	for who, reason := range map[string]string{
		"bob": "the session belongs to another principal", "ann@coding": "the session belongs to another profile",
	} {
		t.Run("with the session of another, "+who, func(t *testing.T) {
			if status, _, text := a.do(http.MethodGet, who, "", "Mcp-Session-Id", session, "Last-Event-ID", id); status != http.StatusNotFound {
				t.Errorf("got %d %s", status, text)
			}
			a.refused(t, who, "session id refused", reason, id)
		})
	}
}

// A call is not reached by cancellations and answers that come in another session of the same
// principal, in another profile, or from another principal.
func TestAttacksOnRunningCalls(t *testing.T) {
	a := startAttack(t, "")
	session := a.session("ann")
	event, ask := a.firstAsk("ann", session, true)
	answer := func(action string) string {
		return `{"jsonrpc":"2.0","id":` + ask + `,"result":{"action":"` + action + `"}}`
	}
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
	for _, who := range []string{"ann", "ann@coding", "bob"} {
		elsewhere := a.session(who)
		for _, body := range []string{cancel, answer("decline")} {
			if status, _, text := a.legacy(who, elsewhere, body); status != http.StatusAccepted {
				t.Errorf("%s in a session of their own: %d %s", who, status, text)
			}
			if who == "ann" {
				continue
			}
			if status, _, text := a.legacy(who, session, body); status != http.StatusNotFound {
				t.Errorf("%s in ann's session: %d %s", who, status, text)
			}
		}
	}
	if status, _, text := a.legacy("ann", session, answer("accept")); status != http.StatusAccepted {
		t.Fatalf("the answer: %d %s", status, text)
	}
	if _, _, text := a.do(http.MethodGet, "ann", "", "Mcp-Session-Id", session, "Last-Event-ID", event); !strings.Contains(text, `"text":"accept"`) {
		t.Errorf("the call ends with %s", text)
	}
}
