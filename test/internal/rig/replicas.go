package rig

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
)

// With -replicas, StartGateway runs several gateways behind a balancer that share a store.
var (
	replicas = flag.Int("replicas", 1, "run each gateway as so many replicas behind a balancer without affinity")
	balance  = flag.String("balance", "http", "with -replicas: the balancer sends each request (http) or each connection (tcp) to the next replica")
)

// Replicated reports whether StartGateway runs several gateways.
func Replicated() bool { return *replicas > 1 }

// Replicas are several gateways with one configuration behind a balancer without affinity.
type Replicas struct {
	URL      string // of the balancer: each request goes to the next replica
	TCP      string // of the balancer: each connection goes to the next replica
	Gateways []*Gateway
	files    []string // the configuration of each
}

// sealingKey is what all replicas of a test seal with.
const sealingKey = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// StartReplicas runs n gateways with the configuration, waits until all are ready, and then runs the balancer. The configuration says whether they
// share a store; they share the keys that seal what clients hand back.
func StartReplicas(t testing.TB, n int, config Config) *Replicas {
	t.Helper()
	r := startReplicas(t, n, config)
	r.startBalancer(t, netns.Addr(), netns.Addr())
	return r
}

func startReplicas(t testing.TB, n int, config Config) *Replicas {
	t.Helper()
	r := &Replicas{}
	for range n {
		listen, admin := netns.Addr(), netns.Addr()
		file := configFile(t, config, Config{"admin": Config{"listen": admin}, "bridge": sealed(config)})
		r.Gateways, r.files = append(r.Gateways, start(t, listen, admin, file)), append(r.files, file)
	}
	return r
}

// StartAgain runs replica i again, after its process has ended, and waits until it is ready.
func (r *Replicas) StartAgain(t testing.TB, i int) {
	t.Helper()
	listen, admin := hostOf(r.Gateways[i].URL), strings.TrimPrefix(r.Gateways[i].Admin, "http://")
	r.Gateways[i] = start(t, listen, admin, r.files[i])
}

// hostOf returns the address in the URL of an endpoint.
func hostOf(url string) string { return strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp") }

// Balance is what the balancer sends to the next replica.
type Balance string

const (
	Requests    Balance = "http" // each request
	Connections Balance = "tcp"  // each connection
)

// StartBalanced is StartGateway with three replicas that share a store. The admin address is that of the first replica.
func StartBalanced(t testing.TB, config Config, balance Balance) *Gateway {
	t.Helper()
	return startBalanced(t, 3, config, balance)
}

func startBalanced(t testing.TB, n int, config Config, balance Balance) *Gateway {
	t.Helper()
	shared := maps.Clone(config)
	addr, _ := StartRedis(t)
	shared["store"] = Config{"kind": "redis", "url": "redis://" + addr}
	http, tcp := netns.Addr(), netns.Addr()
	if given, ok := config["listen"].(string); ok && balance == Requests { // clients know the address: it is that of the balancer
		http = given
	} else if ok {
		tcp = given
	}
	r := startReplicas(t, n, shared)
	r.startBalancer(t, http, tcp)
	first, url := r.Gateways[0], r.URL
	if balance == Connections {
		url = r.TCP
	}
	return &Gateway{URL: url, SSE: strings.TrimSuffix(url, "/mcp") + "/sse", Admin: first.Admin, Process: first.Process}
}

// sealed returns the key bridge of a configuration with the keys of a test, or its own.
func sealed(config Config) Config {
	bridge, _ := config["bridge"].(Config)
	bridge = maps.Clone(bridge)
	if bridge == nil {
		bridge = Config{}
	}
	if bridge["keys"] == nil {
		bridge["keys"] = []string{sealingKey}
	}
	return bridge
}

// balancer is the configuration of the balancer. It sends nothing to a replica that is not ready, tries another one while nothing was sent, and ends
// no stream.
const balancer = `
global
  maxconn 2000
  tune.bufsize 65536
defaults
  mode http
  balance roundrobin
  option redispatch 1
  retries 3
  retry-on conn-failure
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  timeout http-request 10m
  option abortonclose
  option httpchk GET /readyz
  default-server check inter 200ms fall 1 rise 1
`

func (r *Replicas) startBalancer(t testing.TB, http, tcp string) {
	t.Helper()
	var text strings.Builder
	text.WriteString(balancer)
	for _, side := range []struct{ mode, addr string }{{"http", http}, {"tcp", tcp}} {
		fmt.Fprintf(&text, "listen %s\n  mode %s\n  bind %s\n", side.mode, side.mode, side.addr)
		for i, g := range r.Gateways {
			_, port, _ := strings.Cut(strings.TrimPrefix(g.Admin, "http://"), ":")
			fmt.Fprintf(&text, "  server replica%d %s port %s\n", i+1, hostOf(g.URL), port)
		}
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := process.Start(t, process.Options{Name: "haproxy", Args: []string{Debian(t, "haproxy"), "-db", "-f", file}})
	p.WaitListening(t, http)
	p.WaitListening(t, tcp)
	r.URL, r.TCP = "http://"+http+"/mcp", "http://"+tcp+"/mcp"
}

// StartRedis runs a Redis server until the test ends, with further arguments, and returns its address.
func StartRedis(t testing.TB, args ...string) (addr string, server *process.Process) {
	t.Helper()
	addr = netns.Addr()
	return addr, StartRedisOn(t, addr, args...)
}

// StartRedisOn is StartRedis on an address, for example that of a server that has ended.
func StartRedisOn(t testing.TB, addr string, args ...string) *process.Process {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	server := process.Start(t, process.Options{
		Name: "redis-server",
		Args: append([]string{Debian(t, "redis-server"), "--bind", host, "--port", port, "--save", "", "--appendonly", "no"}, args...),
	})
	server.WaitListening(t, addr)
	return server
}

// Debian returns the path of a program of test/replicas/install.sh.
func Debian(t testing.TB, program string) string {
	t.Helper()
	root, err := root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, ".cache/replicas/bin", program)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not installed: run test/install.sh (%v)", program, err)
	}
	return path
}
