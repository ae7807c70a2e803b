package matrix

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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
	// within bounds every wait.
	within = 2 * time.Minute
	// callTimeout is the timeout of upstreams with faults. Calls that are answered must be answered within it, also on a busy machine.
	callTimeout = "4s"
	// startupWait is the startup_wait of the gateway: calls wait for a connection until their own timeout.
	startupWait = "5s"
	maxMessage  = 1 << 20
	// failures is breaker.failures. No cell but those of atRepeat has as many failed calls in a row.
	failures = 3
)

// fleet are the servers of all transports.
type fleet struct {
	certificates string
	servers      map[cell]*server // cells without a moment
	bystanders   map[string]*server
}

// server is one server and what the test knows about it.
type server struct {
	spec
	config rig.Config
	t      testing.TB       // of the whole matrix: a process that is started for a cell outlives it
	own    *process.Options // of a server over HTTP in a process of its own
	proc   *process.Process
}

// startFleet starts the servers over HTTP, and prepares those that the gateway starts.
func startFleet(t testing.TB) *fleet {
	f := &fleet{certificates: certificates(t), servers: map[cell]*server{}, bystanders: map[string]*server{}}
	var shared []*server
	for _, transport := range transports {
		f.bystanders[transport] = newServer(t, f, "bystander", transport)
		if transport != stdio {
			shared = append(shared, f.bystanders[transport])
		}
		for _, k := range kinds {
			if !possible(k.name, transport) {
				continue
			}
			s := newServer(t, f, k.name, transport)
			f.servers[cell{k.name, transport, ""}] = s
			switch {
			case transport == stdio:
			case k.name == exits:
				s.own = serving(t, s)
				s.start()
			default:
				shared = append(shared, s)
			}
		}
	}
	all := process.Start(t, *serving(t, shared...))
	waitServing(t, all)
	return f
}

func possible(kind, transport string) bool {
	for _, m := range moments {
		if (cell{kind, transport, m}).impossible() == "" {
			return true
		}
	}
	return false
}

func newServer(t testing.TB, f *fleet, kind, transport string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "fault") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &server{t: t, spec: spec{Name: kind + "-" + transport, Transport: transport, Dir: dir}}
	s.keep(t, "")
	s.config = rig.Config{}
	if kind != "bystander" {
		s.config["timeout"] = callTimeout
		s.config["breaker"] = rig.Config{"failures": failures, "open": "5s"}
	}
	if transport == stdio {
		o := serving(t, s)
		s.config["command"], s.config["args"] = o.Args[0], o.Args[1:]
		return s
	}
	s.Addr = netns.Addr()
	scheme, host, path := "http", s.Addr, "/mcp"
	switch kind {
	case dns:
		_, port, _ := net.SplitHostPort(s.Addr)
		host = s.Name + domain + ":" + port
	case untrusted, expired:
		s.Certificates, scheme = f.certificates, "https"
	case clockExpiry:
		s.config["auth"] = rig.Config{"kind": "client-credentials", "client_id": "gateway", "client_secret": "secret", "token_url": "http://" + s.Addr + "/token"}
	}
	s.config["transport"], s.config["era"] = "streamable-http", transport
	if transport == sse {
		s.config["transport"], s.config["era"] = "sse", "legacy"
		path = "/sse"
	}
	s.config["url"] = scheme + "://" + host + path
	return s
}

// serving returns the process that serves these servers.
func serving(t testing.TB, servers ...*server) *process.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	specs := []spec{}
	for _, s := range servers {
		specs = append(specs, s.spec)
	}
	text, err := json.Marshal(specs)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "specs.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return &process.Options{Name: "server", Args: []string{self, role, file}}
}

func (s *server) start() {
	s.proc = process.Start(s.t, *s.own)
	waitServing(s.t, s.proc)
}

func waitServing(t testing.TB, p *process.Process) {
	t.Helper()
	p.WaitReady(t, func() error {
		if !strings.Contains(p.Output(), "serving\n") {
			return errors.New("it does not serve yet")
		}
		return nil
	})
}

// keep writes the fault for the next process of the server.
func (s *server) keep(t testing.TB, fault string) {
	t.Helper()
	next := filepath.Join(s.Dir, "next")
	if err := os.WriteFile(next, []byte(fault), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(s.Dir, "fault")); err != nil {
		t.Fatal(err)
	}
}

// set begins a fault, or with "" ends it. A process that does not run now finds the fault when it starts.
func (s *server) set(t testing.TB, fault string) {
	t.Helper()
	s.keep(t, fault)
	if s.own != nil {
		select {
		case <-s.proc.Exited():
			s.start()
			return
		default:
		}
	}
	if _, err := s.tell(fault); err == nil || s.Transport == stdio {
		return // the next process on stdio reads the fault itself
	} else if s.own == nil {
		t.Fatalf("%s: %q: %v", s.Name, fault, err)
	} else if fault == "" {
		<-s.proc.Exited() // it is about to end
		s.start()
	}
}

// tell sends a command to the running process.
func (s *server) tell(command string) (string, error) {
	conn, err := net.Dial("unix", filepath.Join(s.Dir, "control"))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, command); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

// waitHit waits until the gateway has met the fault.
func (s *server) waitHit(t *testing.T) {
	t.Helper()
	polltest.UntilNil(t, s.Name+": the gateway meets the fault", func() error {
		answer, err := s.tell("hits")
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(answer); err != nil || n == 0 {
			return fmt.Errorf("hits: %s %v", answer, err)
		}
		return nil
	})
}

// gateway is a gateway whose upstreams can be replaced.
type gateway struct {
	*rig.Gateway
	file  string
	base  rig.Config
	alone rig.Upstreams
}

// startGateway starts a gateway with these upstreams alone, and with more keys.
func startGateway(t testing.TB, f *fleet, alone rig.Upstreams, more rig.Config) *gateway {
	t.Helper()
	listen, admin := netns.Addr(), netns.Addr()
	g := &gateway{
		Gateway: &rig.Gateway{URL: "http://" + listen + "/mcp", Admin: "http://" + admin},
		file:    filepath.Join(t.TempDir(), "gateway.yaml"), alone: alone,
		base: rig.Config{
			"listen": listen, "admin": rig.Config{"listen": admin, "pprof": true}, "state_dir": t.TempDir(), "startup_wait": startupWait,
			"drain_timeout": "2s", "telemetry": rig.Config{"log": rig.Config{"level": "warn"}}, "limits": rig.Config{"max_message": maxMessage},
		},
	}
	maps.Copy(g.base, more)
	g.write(t, nil)
	g.Process = process.Start(t, process.Options{
		Name: "gateway", Args: []string{rig.Binary(t), "run", "-c", g.file},
		Env: []string{"SSL_CERT_FILE=" + filepath.Join(f.certificates, "ca.pem")},
	})
	t.Cleanup(func() {
		if err := g.Process.Stop(within); err != nil {
			t.Errorf("the gateway did not shut down cleanly: %v", err)
		}
	})
	g.Process.WaitReady(t, func() error {
		status, body, err := observe.Admin(g.Gateway, "/readyz")
		if err == nil && status != 200 {
			err = errors.New(body)
		}
		return err
	})
	return g
}

func (g *gateway) write(t testing.TB, more rig.Upstreams) {
	t.Helper()
	upstreams := maps.Clone(g.alone)
	maps.Copy(upstreams, more)
	config := maps.Clone(g.base)
	config["upstreams"] = upstreams
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	next := g.file + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, g.file); err != nil {
		t.Fatal(err)
	}
}

// use reloads the gateway with more upstreams.
func (g *gateway) use(t *testing.T, more rig.Upstreams) {
	t.Helper()
	g.write(t, more)
	if err := observe.Reload(g.Gateway); err != nil {
		t.Fatal(err)
	}
}

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, g *rig.Gateway, revision string) *raw.Client {
	t.Helper()
	c, err := raw.Open(bounded(t), g.URL, revision)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// work calls the tool of an upstream and returns the answer.
func work(ctx context.Context, c *raw.Client, upstream, text string, stream bool) (raw.Answer, error) {
	meta := c.Meta()
	if meta != "" {
		meta = "," + meta
	}
	return c.Send(ctx, "tools/call", fmt.Sprintf(`{"name":"%s__work","arguments":{"text":%q,"stream":%t},"_meta":{"progressToken":"p"%s}}`, upstream, text, stream, meta))
}

// checkAnswer returns an error unless the answer is the text.
func checkAnswer(answer raw.Answer, err error, text string) error {
	if err != nil {
		return err
	}
	if f := answer.Response.Fault(); f != nil {
		return f
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal([]byte(answer.Response.Member("result")), &result); err != nil || len(result.Content) != 1 || result.Content[0].Text != text {
		return fmt.Errorf("the result is %.300s, want %q", answer.Response.Text, text)
	}
	return nil
}

// busy calls the bystander all the time, with clients of both eras, until stop is called: every call must be answered right.
func busy(t *testing.T, g *rig.Gateway, bystander string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, revision := range []string{raw.Legacy, raw.Modern} {
		c := open(t, g, revision)
		wg.Go(func() {
			pace := time.NewTicker(bystanderPace)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				text := fmt.Sprint(revision, " ", n)
				answer, err := work(ctx, c, bystander, text, n%2 == 0)
				if err = checkAnswer(answer, err, text); err != nil && ctx.Err() == nil {
					t.Errorf("%s client of the bystander, call %d: %v", revision, n, err)
					return
				}
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// bystanderPace is the time between two calls of a client of the bystander: all gateways together must leave the machine some time.
const bystanderPace = 5 * time.Millisecond
