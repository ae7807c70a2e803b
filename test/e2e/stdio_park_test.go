package e2e

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// host is a modern host that starts its own gateway and writes to it line by line.
type host struct {
	t       *testing.T
	process *process.Process
	in      *os.File
	out     *bufio.Reader
	last    int // id
}

func startHost(t *testing.T, config rig.Config) *host {
	t.Helper()
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			r.Close()
			w.Close()
		})
		return r, w
	}
	stdin, in := pipe()
	out, stdout := pipe()
	h := &host{t: t, in: in, out: bufio.NewReader(out)}
	h.process = process.Start(t, process.Options{Name: "gateway", Args: rig.StdioCommand(t, config), Stdin: stdin, Stdout: stdout})
	stdin.Close() // the child has its own copies
	stdout.Close()
	return h
}

// send writes a tool call and returns its id.
func (h *host) send(tool, more string) string {
	h.t.Helper()
	h.last++
	arguments := `{}`
	switch {
	case strings.HasSuffix(tool, "_elicitation"):
		arguments = `{"message":"Who?"}`
	case strings.HasSuffix(tool, "_sampling"):
		arguments = `{"prompt":"Where?"}`
	}
	_, err := fmt.Fprintf(h.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s,`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{}}}}}`+"\n",
		h.last, tool, arguments, more)
	if err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprint(h.last)
}

// answers reads n responses, by their ids.
func (h *host) answers(n int) map[string]raw.Message {
	h.t.Helper()
	out := make(map[string]raw.Message)
	for len(out) < n {
		line, err := h.out.ReadString('\n')
		if err != nil {
			h.t.Fatal(err)
		}
		m, err := raw.Read(line)
		if err != nil {
			h.t.Fatal(err)
		}
		if m.Method() != "" {
			h.t.Fatalf("a modern client received %s", line)
		}
		out[m.Member("id")] = m
	}
	return out
}

// call sends a tool call and returns its response.
func (h *host) call(tool, more string) raw.Message {
	h.t.Helper()
	id := h.send(tool, more)
	return h.answers(1)[id]
}

// state returns the requestState of an input_required result with a request of this method.
func (h *host) state(m raw.Message, method string) string {
	h.t.Helper()
	result := m.Member("result")
	_, state, ok := strings.Cut(result, `"requestState":"`)
	if !strings.Contains(result, `"resultType":"input_required"`) || !strings.Contains(result, `"method":"`+method+`"`) || !ok {
		h.t.Fatalf("not an input_required result with %s: %s", method, m.Text)
	}
	state, _, _ = strings.Cut(state, `"`)
	return state
}

func answered(state, answer string) string {
	return `,"inputResponses":{"ask-1":` + answer + `},"requestState":"` + state + `"`
}

// A modern host starts the gateway on stdio, and the servers behind it send requests. The gateway parks the calls, and the single pipe carries
// other calls meanwhile.
func TestParkingOverStdio(t *testing.T) {
	fixture := rig.FixtureCommand(t)
	h := startHost(t, rig.Config{"drain_timeout": "1h", "upstreams": rig.Upstreams{
		"http":  {"url": rig.Fixture(t, rig.Legacy), "era": rig.Legacy},
		"stdio": {"command": fixture[0], "args": fixture[1:], "era": rig.Legacy},
	}})
	const name, city = `{"action":"accept","content":{"username":"Ann"}}`, `{"role":"assistant","model":"m","content":{"type":"text","text":"Paris"}}`
	for _, upstream := range []string{"http", "stdio"} {
		elicit, sample := upstream+"__test_elicitation", upstream+"__test_sampling"
		state := h.state(h.call(elicit, ""), "elicitation/create")
		// Another call works while the first one is parked.
		if got := h.call(upstream+"__test_simple_text", ""); !strings.Contains(got.Text, "simple text response") {
			t.Errorf("%s: another call got %s", upstream, got.Text)
		}
		if got := h.call(elicit, answered(state, `{"action":"perhaps"}`)); got.Fault() == nil || got.Fault().Code != -32602 {
			t.Errorf("%s: an invalid answer got %s", upstream, got.Text)
		}
		if again := h.state(h.call(elicit, `,"requestState":"`+state+`"`), "elicitation/create"); again == state {
			t.Errorf("%s: a retry without answers got the same state", upstream)
		} else {
			state = again
		}
		if got := h.call(elicit, answered(state, name)); !strings.Contains(got.Text, "action=accept, content=map[username:Ann]") {
			t.Errorf("%s: the answer led to %s", upstream, got.Text)
		}
		if got := h.call(elicit, answered(state, name)); got.Fault() == nil || !strings.Contains(got.Fault().Message, "already used") {
			t.Errorf("%s: a used state got %s", upstream, got.Text)
		}
		state = h.state(h.call(sample, ""), "sampling/createMessage")
		if got := h.call(sample, answered(state, city)); !strings.Contains(got.Text, "LLM response: Paris") {
			t.Errorf("%s: the answer led to %s", upstream, got.Text)
		}
	}
	// Two parked calls each get the answer to their own question.
	first, second := h.send("http__test_elicitation", ""), h.send("http__test_sampling", "")
	both := h.answers(2)
	elicited, sampled := h.state(both[first], "elicitation/create"), h.state(both[second], "sampling/createMessage")
	second, first = h.send("http__test_sampling", answered(sampled, city)), h.send("http__test_elicitation", answered(elicited, name))
	both = h.answers(2)
	if !strings.Contains(both[first].Text, "username:Ann") || !strings.Contains(both[second].Text, "Paris") {
		t.Errorf("two calls got %s and %s", both[first].Text, both[second].Text)
	}
	// The host ends while a call is parked. The parked call does not delay the gateway's end.
	h.state(h.call("http__test_elicitation", ""), "elicitation/create")
	h.in.Close()
	select {
	case <-h.process.Exited():
	case <-time.After(time.Minute):
		t.Fatal("the gateway waits for a parked call")
	}
	if err := h.process.Stop(time.Minute); err != nil { // the process has ended; Stop returns its status
		t.Errorf("the gateway ended with %v", err)
	}
}
