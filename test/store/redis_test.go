package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/redis"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/rig"
)

// open returns a store that is closed at the end of the test.
func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	o.Prefix = "test"
	s := redis.Open(o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// contract runs the tests of all stores.
func contract(t *testing.T, o redis.Options) {
	s := open(t, o)
	storetest.Run(t, func(*testing.T) store.Store { return s })
}

func TestSingle(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	contract(t, redis.Options{Addrs: []string{addr}})
}

func TestUserAndDatabase(t *testing.T) {
	addr, _ := rig.StartRedis(t, "--user", "default", "off", "--user", "gateway", "on", ">secret", "~test:*", "+@all")
	contract(t, redis.Options{Addrs: []string{addr}, Username: "gateway", Password: "secret", DB: 3})

	other := open(t, redis.Options{Addrs: []string{addr}, Username: "gateway", Password: "wrong"})
	err := store.Check(t.Context(), other, time.Minute)
	if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "wrong\"") {
		t.Errorf("with a wrong password the error is %v", err)
	}
}

func TestCluster(t *testing.T) {
	var addrs []string
	for range 3 {
		_, bus, _ := net.SplitHostPort(netns.Addr())
		addr, _ := rig.StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-config-file", filepath.Join(t.TempDir(), "nodes.conf"))
		addrs = append(addrs, addr)
	}
	rig.RedisCLI(t, addrs[0], append(append([]string{"--cluster", "create"}, addrs...), "--cluster-yes")...)
	for _, addr := range addrs {
		polltest.Until(t, "the cluster works", func() bool {
			return strings.Contains(rig.RedisCLI(t, addr, "cluster", "info"), "cluster_state:ok")
		})
	}
	contract(t, redis.Options{Mode: redis.Cluster, Addrs: addrs[:1]})
}

// A failover loses no key that was replicated, and the store works again by itself.
func TestSentinel(t *testing.T) {
	failover := rig.StartRedisFailover(t, 1)
	o := redis.Options{Mode: redis.Sentinel, Addrs: failover.Sentinels, Master: "main"}
	s, key := open(t, o), store.Key{Kind: "value", Name: "kept"}
	if err := s.Put(t.Context(), key, []byte("x"), time.Hour); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the value is replicated", func() bool { return strings.Contains(rig.RedisCLI(t, failover.Replica, "dbsize"), "1") })
	failover.Master.Kill()
	polltest.UntilNil(t, "the store works", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		values, err := s.Get(ctx, key)
		if err == nil && string(values[0]) != "x" {
			t.Errorf("after the failover the value is %q", values[0])
		}
		return errors.Join(err, s.Put(ctx, key, []byte("x"), time.Hour))
	})
	contract(t, o)
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, cert := certificates(t, dir)
	_, port, _ := net.SplitHostPort(netns.Addr())
	_, server := rig.StartRedis(t, "--tls-port", port, "--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"),
		"--tls-ca-cert-file", filepath.Join(dir, "ca.pem"), "--tls-auth-clients", "yes")
	addr := "127.0.0.1:" + port
	server.WaitListening(t, addr)
	contract(t, redis.Options{Addrs: []string{addr}, TLS: func() (*tls.Config, error) {
		return &tls.Config{RootCAs: ca, Certificates: []tls.Certificate{cert}}, nil
	}})

	for name, config := range map[string]*tls.Config{
		"without a certificate":     {RootCAs: ca},
		"of an unknown authority":   {RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{cert}},
		"of a server of other name": {RootCAs: ca, Certificates: []tls.Certificate{cert}, ServerName: "redis.example"},
		"without TLS":               nil,
	} {
		o := redis.Options{Addrs: []string{addr}}
		if config != nil {
			o.TLS = func() (*tls.Config, error) { return config, nil }
		}
		if err := store.Check(t.Context(), open(t, o), time.Minute); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a connection %s gave %v", name, err)
		}
	}
}

// certificates writes an authority and a certificate for 127.0.0.1 into a folder.
func certificates(t testing.TB, dir string) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	for name, text := range map[string][]byte{"ca.pem": certPEM, "cert.pem": certPEM, "key.pem": keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool, pair
}

// Operations end with their context while the server does not answer, and succeed when it does again.
func TestServerAway(t *testing.T) {
	addr, server := rig.StartRedis(t)
	s, key := open(t, redis.Options{Addrs: []string{addr}}), store.Key{Kind: "value", Name: "x"}
	put := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return s.Put(ctx, key, nil, time.Hour)
	}
	if err := put(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(server.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 20 { // more than there are connections
		if err := put(100 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("a server that does not answer gives %v", err)
		}
	}
	if err := syscall.Kill(server.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	polltest.UntilNil(t, "the store works", func() error { return put(time.Second) })
	server.Kill()
	if err := put(time.Minute); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a server that has ended gives %v", err)
	}
}

// Redis has neither names nor values that a test wrote in clear text, and nothing without an end.
func TestKeys(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	s, ctx := open(t, redis.Options{Addrs: []string{addr}}), t.Context()
	key := store.Key{Kind: "session", Name: "secret"}
	limit := store.Limit{Key: key, Rate: 1, Burst: 5, Concurrent: 5}
	_, errField := s.PutField(ctx, store.Key{Kind: "fields", Name: "secret"}, "f", nil, 1, time.Minute)
	_, _, errLimit := s.Acquire(ctx, "holder", time.Minute, limit)
	errRenew := s.Renew(ctx, time.Minute, map[string][]store.Limit{"other": {{Key: store.Key{Kind: "limit", Name: "secret"}, Concurrent: 1}}})
	err := errors.Join(s.Put(ctx, key, nil, time.Minute), s.Append(ctx, store.Key{Kind: "log", Name: "secret"}, 5, time.Minute, nil), errField, errLimit, errRenew)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(rig.RedisCLI(t, addr, "keys", "*"))
	if len(names) != 6 {
		t.Errorf("the keys are %q", names)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "test:v1:") || strings.Contains(name, "secret") {
			t.Errorf("a key is %q", name)
		}
		if left := strings.TrimSpace(rig.RedisCLI(t, addr, "pttl", name)); strings.HasPrefix(left, "-") {
			t.Errorf("%s has no end: %s", name, left)
		}
	}
	// A key of another type is an error of its own, which does not mean that the store is away.
	if _, err := s.Fields(ctx, key); !errors.Is(err, store.ErrWrongType) {
		t.Errorf("the fields of a value give %v", err)
	}
	if _, err := s.PutField(ctx, key, "f", nil, 1, time.Minute); !errors.Is(err, store.ErrWrongType) {
		t.Errorf("a script gives %v", err)
	}
}

// A store that takes nearly as long as an operation may works: connections are made apart from operations.
func TestSlowStore(t *testing.T) {
	addr, _ := rig.StartRedis(t, "--user", "default", "off", "--user", "gateway", "on", ">secret", "~test:*", "+@all")
	wire := rig.NewSlowWire(t, addr)
	wire.Delay.Store(int64(180 * time.Millisecond))
	s := open(t, redis.Options{Addrs: []string{wire.Addr}, Username: "gateway", Password: "secret", DB: 1})
	g := store.NewGuarded(s, store.NewMetrics(), func(bool, error) {})
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { g.Run(ctx); close(done) }()
	polltest.UntilNil(t, "several operations at once succeed", func() error {
		errs := make([]error, 4)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = g.Put(t.Context(), store.Key{Kind: "value", Name: "x"}, nil, time.Minute) })
		}
		all.Wait()
		if up, _, why := g.Health(); !up {
			return why
		}
		_, err := g.Read(t.Context(), store.Key{Kind: "log"}, "", 1, 2*time.Second)
		return errors.Join(append(errs, err)...)
	})
	end()
	<-done
}
