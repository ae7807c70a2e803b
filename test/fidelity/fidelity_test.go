package fidelity

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/test/fidelity/internal/compare"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// within bounds a single exchange.
const within = 2 * time.Minute

// tokens are progress tokens of clients. The server receives different tokens.
var tokens = []string{`"tok\u0065n \/ 9007199254740993"`, `9007199254740993`, `""`, `0`, `-0.0`, `1e2`}

// path is one combination of a client, a gateway and a server.
type path struct {
	client    *raw.Client
	clientEra string
	naming    naming
	era       string // of the server
	stdio     bool
	enrich    bool
	bounds    bool   // the profile bounds results of tools
	received  string // file
}

// paths runs a test on every combination: both eras on both sides, stdio and HTTP, with and without a prefix, and some with enrichment. The
// clients of one gateway take turns: log messages of a stdio server are dropped while several clients have calls there.
func paths(t *testing.T, test func(t *testing.T, p path)) {
	for _, era := range []string{"legacy", "modern"} {
		for _, transport := range []string{"stdio", "http"} {
			for _, prefix := range []string{"", "fx"} {
				along(t, path{naming: naming{"odd", prefix}, era: era, stdio: transport == "stdio"}, test)
			}
		}
		along(t, path{naming: naming{"odd", "fx"}, era: era, stdio: true, enrich: true}, test)
	}
}

func along(t *testing.T, p path, test func(t *testing.T, p path)) {
	transport, enriched := "http", ""
	if p.stdio {
		transport = "stdio"
	}
	if p.enrich {
		enriched = ", enriched"
	}
	t.Run(fmt.Sprintf("%s server on %s, prefix %q%s", p.era, transport, p.naming.prefix, enriched), func(t *testing.T) {
		t.Parallel()
		gateway, received := start(t, p)
		p.received = received
		for client, revision := range map[string]string{"legacy": raw.Legacy, "modern": raw.Modern} {
			t.Run(client+" client", func(t *testing.T) {
				c, err := raw.Open(bounded(t), gateway.URL, revision)
				if err != nil {
					t.Fatal(err)
				}
				p := p
				p.client, p.clientEra = c, client
				test(t, p)
			})
		}
	})
}

// start starts a server and a gateway in front of it.
func start(t *testing.T, p path) (*rig.Gateway, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	received := filepath.Join(t.TempDir(), "received")
	upstream := rig.Config{"command": self, "args": []string{role, p.era, received, "stdio"}}
	if !p.stdio {
		addr := netns.Addr()
		server := process.Start(t, process.Options{Name: "odd server", Args: []string{self, role, p.era, received, addr}})
		server.WaitListening(t, addr)
		upstream = rig.Config{"url": "http://" + addr + "/mcp"}
	}
	upstream["prefix"] = p.naming.prefix
	config := rig.Config{"upstreams": rig.Upstreams{"odd": upstream}, "resources": rig.Config{"enrich": p.enrich}}
	if p.bounds {
		config["profiles"] = rig.Config{"default": rig.Config{"max_result": "1MiB", "images": rig.Config{"max": 8192}}}
	}
	return rig.StartGateway(t, config), received
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	return ctx
}

// meta returns the _meta of a client's request. mark identifies the request.
func (p path) meta(mark, token string) string {
	own := ""
	if p.clientEra == "modern" {
		own = `,` + modernMeta
	}
	return `"_meta":{ "x\/first":` + tame + `,"progressToken":` + token + own + `, "mark":"` + mark + `"}`
}

const (
	clientInfo         = `{"x":1e2,"name":"\u0041","version":"1.0","icons":[],"y":{"a":9007199254740993}}`
	clientCapabilities = `{"x":{"a":1.0},"extensions":{"com.example/odd":{}, "io.modelcontextprotocol/ui":{"a":1e2}},"sampling":{"context":{}, "tools":{}}}`
	modernMeta         = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"debug",` +
		`"io.modelcontextprotocol/clientInfo":` + clientInfo + `,"io.modelcontextprotocol/clientCapabilities":` + clientCapabilities
)

func TestCalls(t *testing.T) { paths(t, testCalls) }

// Bounds on the results of tools change nothing in a result within the bounds.
func TestCallsWithBounds(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		along(t, path{naming: naming{"odd", "fx"}, era: era, stdio: true, bounds: true}, testCalls)
	}
}

func testCalls(t *testing.T, p path) {
	for i, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			mark := fmt.Sprint(p.clientEra, " ", i)
			token := tokens[i%len(tokens)]
			params := c.params(p.naming, p.meta(mark, token))
			answer, err := p.client.Send(bounded(t), c.method, params)
			if err != nil {
				t.Fatal(err)
			}
			p.downward(t, mark, token, params, c)
			p.notes(t, c, token, answer)
			if c.fault != "" {
				want := p.public(c.fault, c.refs)
				if code := compare.At(c.fault, "code"); code == "-32002" && p.clientEra == "modern" { // the modern era does not have this code
					want = append(want, compare.Change{Path: "code", From: code, To: "-32602"})
				}
				p.differs(t, "error", c.fault, answer.Response.Member("error"), want)
				return
			}
			p.differs(t, "result", c.result, answer.Response.Member("result"), slices.Concat(p.public(c.result, c.refs), p.envelope(c), p.enriched(c.enriched)))
		})
	}
}

// public returns the changes that make the URIs at these paths public.
func (p path) public(text string, refs []string) []compare.Change {
	var changes []compare.Change
	for _, ref := range refs {
		native := at(text, ref)
		var decoded string
		if err := json.Unmarshal([]byte(native), &decoded); err != nil {
			panic(err)
		}
		if public := p.naming.uri(decoded); public != p.native().uri(decoded) {
			changes = append(changes, compare.Change{Path: ref, From: native, To: public})
		}
	}
	return changes
}

// enriched returns the members that enrichment adds.
func (p path) enriched(members map[string]string) []compare.Change {
	var changes []compare.Change
	for path, value := range members {
		if p.enrich {
			changes = append(changes, compare.Change{Path: path, To: value})
		}
	}
	return changes
}

func (p path) native() naming { return naming{upstream: p.naming.upstream} }

func at(text, path string) string {
	return compare.At(text, strings.Split(path, "/")...)
}

const serverInfo = "io.modelcontextprotocol/serverInfo"

// own is the placeholder in an expected change for a value that the gateway chooses.
const own = "the gateway's own"

// envelope returns the members that the client's era requires and the server did not send, and the members of a modern server that a legacy client
// must not receive.
func (p path) envelope(c exchange) []compare.Change {
	var changes []compare.Change
	cacheable := c.method == "resources/read" || c.method == "resources/metadata" || c.method == "resources/list"
	add := func(name, value string) {
		if compare.At(c.result, name) == "" {
			changes = append(changes, compare.Change{Path: name, To: value})
		}
	}
	meta := compare.At(c.result, "_meta")
	info := strings.ReplaceAll("_meta/"+serverInfo, "protocol/", "protocol//")
	switch {
	case p.clientEra == "modern":
		add("resultType", `"complete"`)
		if cacheable {
			add("ttlMs", "0")
			add("cacheScope", `"private"`)
		}
		switch {
		case meta == "":
			add("_meta", own)
		case compare.At(meta, serverInfo) == "":
			changes = append(changes, compare.Change{Path: info, To: own})
		}
	case p.era == "modern":
		for _, name := range []string{"resultType", "ttlMs", "cacheScope"} {
			if value := compare.At(c.result, name); value != "" {
				changes = append(changes, compare.Change{Path: name, From: value})
			}
		}
		if meta != "" && compare.At(meta, serverInfo) != "" {
			changes = append(changes, compare.Change{Path: info, From: compare.At(meta, serverInfo)})
		}
	}
	return changes
}

// carried returns the text as the server's transport carries it.
func (p path) carried(text string) string {
	if p.stdio {
		return oneLine(text)
	}
	return text
}

// differs checks that got differs from sent by exactly these changes.
func (p path) differs(t *testing.T, what, sent, got string, want []compare.Change) {
	t.Helper()
	sent = p.carried(sent)
	if got == "" {
		t.Errorf("%s is missing", what)
		return
	}
	undone, changes := compare.Undo(sent, got)
	byPath := func(a, b compare.Change) int { return strings.Compare(a.Path, b.Path) }
	slices.SortStableFunc(changes, byPath)
	want = slices.SortedStableFunc(slices.Values(want), byPath)
	for i := range want {
		want[i].From, want[i].To = p.carried(want[i].From), p.carried(want[i].To)
		if i < len(changes) && want[i].To == own && strings.HasPrefix(changes[i].To, "{") {
			want[i].To = changes[i].To
		}
	}
	if !slices.Equal(changes, want) {
		t.Errorf("%s: differences\n%s\nwant\n%s", what, show(changes), show(want))
	}
	if undone != sent {
		t.Errorf("%s: without the differences it is not the sent text:\n%s", what, firstDifference(sent, undone))
	}
}

func show(changes []compare.Change) string {
	var out strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&out, "\t%s: %.200q → %.200q\n", c.Path, c.From, c.To)
	}
	return out.String()
}

func firstDifference(want, got string) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	from := max(0, i-40)
	return fmt.Sprintf("at byte %d\n\twant %q\n\tgot  %q", i, want[from:min(len(want), i+80)], got[from:min(len(got), i+80)])
}

// notes checks the notifications before a response.
func (p path) notes(t *testing.T, c exchange, token string, answer raw.Answer) {
	t.Helper()
	if len(answer.Before) != len(c.notes) {
		t.Errorf("%d notifications, want %d: %.500v", len(answer.Before), len(c.notes), answer.Before)
		return
	}
	for i, n := range c.notes {
		got := answer.Before[i]
		if got.Method() != n.method {
			t.Errorf("notification %d is %s, want %s", i, got.Method(), n.method)
		}
		p.differs(t, n.method, strings.ReplaceAll(n.params, "TOKEN", token), got.Member("params"), nil)
	}
}

// perRequest are the _meta members of modern requests. The gateway reads the client's members and writes its own.
var perRequest = []string{
	"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo",
	"io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/logLevel",
}

// downward checks the request that the server received with the mark in its _meta.
func (p path) downward(t *testing.T, mark, token, sent string, c exchange) {
	t.Helper()
	got := p.params(t, c.method, mark)
	if got == "" {
		t.Error("the server did not receive the request")
		return
	}
	got, taken := withoutMeta(got)
	sent, given := withoutMeta(p.carried(sent))
	want := []compare.Change{{Path: "_meta/progressToken", From: token, To: compare.At(got, "_meta", "progressToken")}}
	if compare.At(got, "_meta", "progressToken") == token {
		t.Error("the server received the client's progress token")
	}
	for _, where := range [][]string{{"name"}, {"uri"}, {"ref", "name"}, {"ref", "uri"}} {
		if public := compare.At(sent, where...); public != "" && public != quote(c.item) {
			want = append(want, compare.Change{Path: strings.Join(where, "/"), From: public, To: quote(c.item)})
		}
	}
	p.differs(t, "params at the server", sent, got, want)

	expected := map[string]string{}
	switch {
	case p.era == "modern" && p.clientEra == "modern":
		expected = given
		// The server must not see the capabilities of other servers, nor an extension that the gateway does not relay.
		expected[perRequest[2]] = strings.NewReplacer(`"context":{}, `, ``, `"com.example/odd":{}, `, ``).Replace(expected[perRequest[2]])
	case p.era == "modern":
		expected = map[string]string{
			perRequest[0]: `"2026-07-28"`, perRequest[1]: `{"name":"raw","version":"1"}`, perRequest[2]: `{}`, perRequest[3]: `"info"`,
		}
	}
	for _, name := range perRequest {
		if taken[name] != expected[name] {
			t.Errorf("the server received %s %s, want %s", name, taken[name], expected[name])
		}
	}
}

// withoutMeta removes the per-request _meta members from params and returns them.
func withoutMeta(params string) (string, map[string]string) {
	meta := compare.At(params, "_meta")
	rest, taken := compare.Without(meta, perRequest...)
	return strings.Replace(params, meta, rest, 1), taken
}

// params returns the params of the request with this mark, as the server received it. The request was answered, so the file contains it.
func (p path) params(t *testing.T, method, mark string) string {
	t.Helper()
	for _, m := range p.requests(t) {
		if m.Method() == method && strings.Contains(m.Text, `"mark"`) && compare.At(m.Member("params"), "_meta", "mark") == quote(mark) {
			return m.Member("params")
		}
	}
	return ""
}

// requests returns all messages that the server has received.
func (p path) requests(t *testing.T) []raw.Message {
	t.Helper()
	file, err := os.Open(p.received)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []raw.Message
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return out // an incomplete line belongs to another test
		}
		var text string
		if err := json.Unmarshal(line, &text); err != nil {
			t.Fatal(err)
		}
		m, err := raw.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
}

func TestLists(t *testing.T) {
	paths(t, func(t *testing.T, p path) {
		for _, l := range lists {
			t.Run(l.method, func(t *testing.T) {
				m, err := p.client.Call(bounded(t), l.method, `{}`)
				if err != nil {
					t.Fatal(err)
				}
				result := m.Member("result")
				known := []string{l.member}
				if p.clientEra == "modern" {
					known = append(known, "resultType", "ttlMs", "cacheScope", "_meta")
				}
				keys := compare.Keys(result)
				slices.Sort(keys)
				slices.Sort(known)
				if !slices.Equal(keys, known) {
					t.Errorf("the result has %q, want %q", keys, known)
				}
				items := compare.Elements(compare.At(result, l.member))
				if len(items) != len(l.items) {
					t.Fatalf("%d items, want %d", len(items), len(l.items))
				}
				for i, sent := range l.items {
					p.differs(t, fmt.Sprint("item ", i), sent, items[i], p.itemChanges(l.id, sent))
				}
			})
		}
	})
}

// itemChanges returns the changes of a listed item.
func (p path) itemChanges(id, sent string) []compare.Change {
	if id != "name" {
		changes := p.public(sent, []string{id})
		if strings.Contains(sent, "inode/directory") {
			changes = append(changes, p.enriched(map[string]string{"resourceType": `"collection"`})...)
		}
		return changes
	}
	name := compare.At(sent, "name")
	var native string
	if err := json.Unmarshal([]byte(name), &native); err != nil {
		panic(err)
	}
	var changes []compare.Change
	switch {
	case native == awkward:
		changes = append(changes, compare.Change{Path: "_meta/mcpgateway//native", To: quote(native)})
		fallthrough
	case p.naming.prefix != "":
		changes = append(changes, compare.Change{Path: "name", From: name, To: p.naming.name(native)})
	}
	if strings.Contains(sent, "inputSchema") && strings.Contains(sent, "ui:plain") {
		for _, ref := range [][]string{{"_meta", "ui", "resourceUri"}, {"_meta", "ui/resourceUri"}, {"_meta", "openai/outputTemplate"}} {
			native := compare.At(sent, ref...)
			public := p.naming.uri(strings.Trim(native, `"`))
			if public == native {
				continue
			}
			steps := make([]string, len(ref))
			for i, s := range ref {
				steps[i] = strings.ReplaceAll(s, "/", "//")
			}
			changes = append(changes, compare.Change{Path: strings.Join(steps, "/"), From: native, To: public})
		}
	}
	return changes
}
