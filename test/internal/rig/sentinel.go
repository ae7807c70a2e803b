package rig

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
)

// RedisFailover is a Redis server with a replica, watched by Sentinels.
type RedisFailover struct {
	URL       string   // for store.url
	Sentinels []string // their addresses
	Replica   string   // address of the replica
	Master    *process.Process
}

// masterName is the name of the server at the Sentinels.
const masterName = "main"

// StartRedisFailover runs a Redis server, a replica of it and n Sentinels until the test ends. It waits until each Sentinel knows the replica and the others.
func StartRedisFailover(t testing.TB, n int) *RedisFailover {
	t.Helper()
	master, p := StartRedis(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(master)
	replica, _ := StartRedis(t, "--replicaof", host+" "+port)
	r := &RedisFailover{Master: p, Replica: replica}
	for i := range n {
		addr := netns.Addr()
		_, own, _ := net.SplitHostPort(addr)
		text := fmt.Sprintf("bind 127.0.0.1\nport %[1]s\nsentinel monitor %[2]s %[3]s %[4]s %[5]d\nsentinel down-after-milliseconds %[2]s 1000\n"+
			"sentinel failover-timeout %[2]s 4000\n", own, masterName, host, port, n/2+1)
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := process.Start(t, process.Options{Name: fmt.Sprintf("sentinel-%d", i+1), Args: []string{Debian(t, "redis-server"), file, "--sentinel"}})
		s.WaitListening(t, addr)
		// A Sentinel that did not run for 2 s, on a busy machine, trusts its clock no more and does nothing for 30 s: a failover then takes over a minute.
		RedisCLI(t, addr, "sentinel", "debug", "tilt-trigger", "600000")
		r.Sentinels = append(r.Sentinels, addr)
	}
	r.URL = "redis+sentinel://" + strings.Join(r.Sentinels, ",") + "/" + masterName
	polltest.Until(t, "the replica has all data", func() bool {
		return strings.Contains(RedisCLI(t, replica, "info", "replication"), "master_link_status:up")
	})
	for _, addr := range r.Sentinels {
		polltest.UntilNil(t, "the Sentinels know all servers", func() error {
			out := RedisCLI(t, addr, "sentinel", "master", masterName)
			for _, want := range []string{"num-slaves\n1\n", fmt.Sprintf("num-other-sentinels\n%d\n", n-1)} {
				if !strings.Contains(out, want) {
					return fmt.Errorf("a Sentinel says %q, want %q in it", out, want)
				}
			}
			return nil
		})
	}
	return r
}

// RedisCLI runs redis-cli at an address and returns its output.
func RedisCLI(t testing.TB, addr string, args ...string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	all := append([]string{Debian(t, "redis-cli"), "-h", host, "-p", port}, args...)
	out, stderr, err := process.Run(t.Context(), t, "", process.Options{Args: all})
	if err != nil {
		t.Fatalf("redis-cli %q: %v\n%s%s", args, err, out, stderr)
	}
	return out
}
