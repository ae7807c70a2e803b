package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// storeWorkload compares gateways that share a store with one that has none.
func storeWorkload() workload {
	const legacy, modern, legacyStore, modernStore = "legacy", "modern", "legacy, store", "modern, store"
	const limited, limitedStore = "limited", "limited, store"
	by := func(name, era string, change ...func(context.Context, *stage, *gatewayConfig, *target) error) path {
		return calls{Via: viaGateway, Era: era, Size: 1 << 10, Change: func(ctx context.Context, s *stage, config *gatewayConfig, t *target) error {
			for _, f := range change {
				if err := f(ctx, s, config, t); err != nil {
					return err
				}
			}
			return nil
		}}.path(name)
	}
	return workload{
		Name:  "store",
		About: "16 clients call a tool with 1 KiB of text. The gateway has a store in Redis on the same machine, or none. On the paths \"limited\" a rule limits the calls of each principal.",
		Paths: []path{
			by(legacy, eraLegacy), by(legacyStore, eraLegacy, withStore),
			by(modern, eraModern), by(modernStore, eraModern, withStore),
			by(limited, eraModern, withLimit), by(limitedStore, eraModern, withLimit, withStore),
		},
		Ratios: slices.Concat([]ratio{
			{Metric: cpu, Of: modernStore, To: modern, AtMost: 1.05, Requirement: 8},
			{Metric: cpu, Of: legacyStore, To: legacy, AtMost: 1.15, Requirement: 8},
		}, against(perSecond, modernStore, modern), against(perSecond, legacyStore, legacy), against(perSecond, limitedStore, limited), against(cpu, limitedStore, limited)),
	}
}

// withStore gives the gateway a store.
func withStore(ctx context.Context, s *stage, config *gatewayConfig, _ *target) error {
	addr, err := s.startRedis(ctx)
	if err != nil {
		return err
	}
	config.Bridge = map[string]any{"keys": []string{fmt.Sprintf("%064x", 1)}}
	config.Store = map[string]any{"kind": "redis", "url": "redis://" + addr}
	return nil
}

// withLimit adds a limit that is never reached.
func withLimit(_ context.Context, _ *stage, config *gatewayConfig, _ *target) error {
	config.Policy = map[string]any{"default": "allow", "rules": []any{map[string]any{
		"name": "limited", "effect": "allow", "what": map[string]any{"tools": []string{"*"}},
		"limit": map[string]any{"rate": "1000000/s", "burst": 1_000_000, "concurrent": 1000, "per": "principal"},
	}}}
	return nil
}

// startRedis starts a Redis server and returns its address.
func (s *stage) startRedis(ctx context.Context) (addr string, err error) {
	program, err := findRedis()
	if err != nil {
		return "", err
	}
	if addr, err = freeAddr(); err != nil {
		return "", err
	}
	host, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(ctx, program, "--bind", host, "--port", port, "--save", "", "--appendonly", "no")
	cmd.Dir = s.dir
	p, err := startProcess(cmd, s.newFile("redis.log"))
	if err != nil {
		return "", err
	}
	s.owned(p)
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return addr, conn.Close()
		}
		select {
		case <-p.done:
			return "", p.explain(errors.New("redis-server ended before it was ready"))
		case <-ctx.Done():
			return "", p.explain(err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// freeAddr returns an address on which nothing listens: redis-server cannot choose one.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", anyPort)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// findRedis returns the program of the Redis server: the machine's, or the one that
// test/replicas/install.sh unpacked.
func findRedis() (string, error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path, nil
	}
	for _, path := range []string{".cache/replicas/bin/redis-server", "../.cache/replicas/bin/redis-server"} {
		if _, err := os.Stat(path); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New(`redis-server is missing: run "test/replicas/install.sh" on Debian, or install Redis`)
}
