package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

const (
	pollEvery = 20 * time.Millisecond
	// within bounds every wait.
	within = 2 * time.Minute
	// startupWait is the startup_wait of gateways with servers that never start. On a busy machine other servers may need longer, too.
	startupWait = 2 * time.Second
	// secret is in the environment and the headers of every upstream.
	secret = "s3cr3t-of-the-operator"
)

// upstreams are the entries of a configuration and the state that the test needs for each entry.
type upstreams struct {
	t      *testing.T
	mark   string // in the environment of every process that the gateway starts
	config rig.Upstreams
	dirs   map[string]string // by name
	remote map[string]*remote
}

// remote is a server that the test starts.
type remote struct {
	args []string
	addr string
	*process.Process
}

func newUpstreams(t *testing.T) *upstreams {
	return &upstreams{
		t: t, mark: "MCPGATEWAY_TEST_MARK=" + t.Name() + strconv.Itoa(os.Getpid()),
		config: rig.Upstreams{}, dirs: map[string]string{}, remote: map[string]*remote{},
	}
}

func (u *upstreams) args(name, mode, addr string) []string {
	self, err := os.Executable()
	if err != nil {
		u.t.Fatal(err)
	}
	u.dirs[name] = u.t.TempDir()
	return []string{self, role, mode, u.dirs[name], addr}
}

// stdio adds a server that the gateway starts.
func (u *upstreams) stdio(name, mode string, more rig.Config) {
	args := u.args(name, mode, "stdio")
	key, value, _ := strings.Cut(u.mark, "=")
	u.config[name] = rig.Config{"command": args[0], "args": args[1:], "env": rig.Config{key: value, "TOKEN": secret}}
	for key, value := range more {
		u.config[name][key] = value
	}
}

// http adds a server and starts it.
func (u *upstreams) http(name, mode string, more rig.Config) {
	addr := netns.Addr()
	u.remote[name] = &remote{args: u.args(name, mode, addr), addr: addr}
	u.remote[name].start(u.t)
	u.config[name] = rig.Config{"url": "http://" + addr + "/mcp", "headers": rig.Config{"Authorization": "Bearer " + secret}}
	for key, value := range more {
		u.config[name][key] = value
	}
}

func (r *remote) start(t *testing.T) {
	t.Helper()
	r.Process = process.Start(t, process.Options{Name: "server " + r.args[2], Args: r.args})
	r.WaitListening(t, r.addr)
}

// gateway starts a gateway in front of the upstreams.
func (u *upstreams) gateway(more rig.Config) *rig.Gateway {
	u.t.Helper()
	config := rig.Config{
		"upstreams": u.config, "drain_timeout": "2s", "limits": rig.Config{"max_message": maxMessage},
	}
	for key, value := range more {
		config[key] = value
	}
	return rig.StartGateway(u.t, config)
}

// awaitStart waits until these servers have started.
func (u *upstreams) awaitStart(g *rig.Gateway, names ...string) {
	u.t.Helper()
	c := client(u.t, g, raw.Modern)
	for _, name := range names {
		polltest.UntilNil(u.t, name+" starts", func() error { _, err := echo(bounded(u.t), c, name); return err })
	}
}

// client connects a client to the gateway.
func client(t *testing.T, g *rig.Gateway, revision string) *raw.Client {
	t.Helper()
	c, err := raw.Open(bounded(t), g.URL, revision)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	return ctx
}

// use calls a tool with a text and returns the text of its result.
func use(ctx context.Context, c *raw.Client, tool, text string) (string, error) {
	m, err := c.Call(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"text":%q}}`, tool, text))
	if err != nil {
		return "", err
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal([]byte(m.Member("result")), &result); err != nil || len(result.Content) != 1 {
		return "", fmt.Errorf("unexpected result %.300s", m.Text)
	}
	return result.Content[0].Text, nil
}

// echo calls the tool echo of an upstream and returns the pid of the server that answered.
func echo(ctx context.Context, c *raw.Client, upstream string) (pid int, err error) {
	answer, err := use(ctx, c, upstream+"__echo", "hello")
	if err != nil {
		return 0, err
	}
	id, ok := strings.CutSuffix(answer, " hello")
	if pid, err = strconv.Atoi(id); !ok || err != nil {
		return 0, fmt.Errorf("%s answered %q", upstream, answer)
	}
	return pid, nil
}

// checkFailure checks the error of a call that an upstream did not answer.
func checkFailure(t *testing.T, err error, upstream, reason string, retryable bool) {
	t.Helper()
	fault, ok := errors.AsType[*raw.Fault](err)
	if !ok {
		t.Errorf("%s: %v, want an error of the gateway", upstream, err)
		return
	}
	if fault.Code != -32603 || !strings.Contains(fault.Message, upstream) {
		t.Errorf("%s: error %d %q, want -32603 that names the upstream", upstream, fault.Code, fault.Message)
	}
	var data map[string]any
	if err := json.Unmarshal(fault.Data, &data); err != nil {
		t.Errorf("%s: data %s: %v", upstream, fault.Data, err)
		return
	}
	since, _ := data["since"].(string)
	if _, err := time.Parse(time.RFC3339, since); err != nil {
		t.Errorf("%s: since: %v", upstream, err)
	}
	why, _ := data["reason"].(string)
	if data["upstream"] != upstream || !regexp.MustCompile(reason).MatchString(why) || data["retryable"] != retryable || data["requestId"] == nil || len(data) != 5 {
		t.Errorf("%s: data %s, want this upstream, a reason like %q and retryable %t", upstream, fault.Data, reason, retryable)
	}
	checkNoLeak(t, "the error of "+upstream, fault.Error())
}

// forbidden matches text that no client may read: secrets, output of servers, paths, addresses, pids, traces.
var forbidden = regexp.MustCompile(secret + "|" + inside + `|/tmp/|faults\.test|faulty-server|127\.0\.0\.1|localhost:|goroutine|\.go:|0x[0-9a-f]{4}|panic|dial tcp`)

func checkNoLeak(t *testing.T, what, text string) {
	t.Helper()
	if found := forbidden.FindString(text); found != "" {
		t.Errorf("%s contains %q: %.500s", what, found, text)
	}
}

// checkUp waits until the metric has this value for the upstream.
func checkUp(t *testing.T, g *rig.Gateway, upstream string, want float64) {
	t.Helper()
	polltest.UntilNil(t, "upstream_up", func() error {
		got, err := observe.Metric(g, fmt.Sprintf("mcp_gateway_upstream_up{upstream=%q}", upstream))
		if err == nil && got != want {
			err = fmt.Errorf("%s is %v, want %v", upstream, got, want)
		}
		return err
	})
}

// checkReady waits until the readiness page has this status.
func checkReady(t *testing.T, g *rig.Gateway, want int) {
	t.Helper()
	polltest.UntilNil(t, "readyz", func() error {
		got, body, err := observe.Admin(g, "/readyz")
		if err == nil && got != want {
			err = fmt.Errorf("%d %s, want %d", got, body, want)
		}
		return err
	})
}

// marked returns the processes with the mark in their environment: the processes that the gateway started, and their descendants.
func (u *upstreams) marked() []int {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		u.t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !strings.Contains("\x00"+string(environ), "\x00"+u.mark+"\x00") {
			continue // the process has ended, or belongs to another user
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err != nil {
			u.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// checkGone waits until the processes with the mark have ended.
func (u *upstreams) checkGone(t *testing.T) {
	t.Helper()
	polltest.UntilNil(t, "the end of all processes", func() error {
		if pids := u.marked(); len(pids) > 0 {
			return fmt.Errorf("processes %v still run", pids)
		}
		return nil
	})
}
