package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// waitTimeout bounds every wait of these tests. It is long because the machine may
// be busy.
const waitTimeout = 60 * time.Second

// client is the HTTP client of these tests. It keeps no idle connections, which
// would outlive the servers.
var client = &http.Client{Timeout: waitTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

// program is a child process of a test.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  output
	done chan struct{} // closed when the process has ended
}

// output collects what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs a command until the end of the test or until stop.
func start(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	go func() {
		_ = cmd.Wait() // tests that care look at the exit status
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("output of %s:\n%s", strings.Join(cmd.Args, " "), p.out.String())
		}
	})
	return p
}

// stop ends the process with SIGTERM, as Kubernetes and Docker do.
func (p *program) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	select {
	case <-p.done:
	case <-time.After(waitTimeout):
		p.t.Errorf("%s did not end after SIGTERM", p.cmd.Path)
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
}

// until polls cond until it is true. It fails the test after waitTimeout or when
// the process ends.
func (p *program) until(what string, cond func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(waitTimeout); !cond(); {
		select {
		case <-p.done:
			p.t.Fatalf("%s ended before it was %s:\n%s", p.cmd.Path, what, p.out.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s was not %s in time:\n%s", p.cmd.Path, what, p.out.String())
		}
	}
}

// gateway returns the command for the binary under test with exactly this
// environment.
func gateway(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Getenv(binaryEnv), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"HOME=" + t.TempDir()}, env...)
	return cmd
}

// serveConfig runs the gateway with a configuration until it is healthy. An error
// in the configuration fails the test.
func serveConfig(t *testing.T, yaml string, adminPort int, env ...string) *program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, yaml)
	p := start(t, gateway(t, env, "run", "-c", file))
	p.until("healthy", func() bool { return status(fmt.Sprintf("http://127.0.0.1:%d/healthz", adminPort)) == http.StatusOK })
	return p
}

// serveDemo runs the gateway with its demo upstreams.
func serveDemo(t *testing.T, mcpPort, adminPort int) *program {
	t.Helper()
	p := start(t, gateway(t, nil, "run", "--listen", fmt.Sprintf("127.0.0.1:%d", mcpPort), "--admin-listen", fmt.Sprintf("127.0.0.1:%d", adminPort)))
	p.until("ready", func() bool { return status(fmt.Sprintf("http://127.0.0.1:%d/readyz", adminPort)) == http.StatusOK })
	return p
}

// status returns the HTTP status of a GET, 0 if there is no response.
func status(url string) int {
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // only the status matters
	return resp.StatusCode
}

// mcpClient talks to an MCP endpoint as a client of one revision.
type mcpClient struct {
	t       *testing.T
	url     string
	session string // session id of a legacy client
}

// legacy opens a session of a legacy revision without client capabilities.
func legacy(t *testing.T, url, revision string) *mcpClient {
	t.Helper()
	c := &mcpClient{t: t, url: url}
	c.send(map[string]string{}, "initialize", map[string]any{
		"protocolVersion": revision, "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"},
	})
	if c.session == "" {
		t.Fatalf("%s: no session", url)
	}
	return c
}

// call sends a request in a session.
func (c *mcpClient) call(method string, params map[string]any) string {
	c.t.Helper()
	return c.send(map[string]string{"Mcp-Session-Id": c.session}, method, params)
}

// modern sends a request of revision 2026-07-28. The client declares form
// elicitation.
func modern(t *testing.T, url, method string, params map[string]any) string {
	t.Helper()
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
	}
	header := map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	for _, key := range []string{"name", "uri"} {
		if name, ok := params[key].(string); ok {
			header["Mcp-Name"] = name
		}
	}
	return (&mcpClient{t: t, url: url}).send(header, method, params)
}

// send posts a request and returns the body of the response, JSON or events.
func (c *mcpClient) send(header map[string]string, method string, params map[string]any) string {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for key, value := range header {
		req.Header.Set(key, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	return string(answer)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// read returns the content of a file of the repository.
func read(t *testing.T, path ...string) []byte {
	t.Helper()
	return readFile(t, filepath.Join(append([]string{repository()}, path...)...))
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// callAndAnswer calls a tool as a modern client, answers its forms with content,
// and returns the final response.
func callAndAnswer(t *testing.T, url, tool string, content map[string]any) string {
	t.Helper()
	first := modern(t, url, "tools/call", map[string]any{"name": tool, "arguments": map[string]any{}})
	var asked struct {
		Result struct {
			RequestState  string                     `json:"requestState"`
			InputRequests map[string]json.RawMessage `json:"inputRequests"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(lastMessage(first)), &asked); err != nil || len(asked.Result.InputRequests) == 0 {
		t.Fatalf("%s sent no input request (%v): %s", tool, err, first)
	}
	responses := map[string]any{}
	for key := range asked.Result.InputRequests {
		responses[key] = map[string]any{"action": "accept", "content": content}
	}
	return modern(t, url, "tools/call", map[string]any{
		"name": tool, "arguments": map[string]any{},
		"requestState": asked.Result.RequestState, "inputResponses": responses,
	})
}

// lastMessage returns the data of the last event of an event stream, or the body
// if it is no stream.
func lastMessage(body string) string {
	if i := strings.LastIndex(body, "data: "); i >= 0 {
		return strings.TrimSpace(body[i+len("data: "):])
	}
	return body
}

// npm returns a path in the folder of the installed npm packages.
func npm(path ...string) string {
	return filepath.Join(append([]string{repository(), "test", "node_modules"}, path...)...)
}
