package redis

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"mcpgateway/internal/store"
)

// Mode says how the servers form one store.
type Mode int

// The modes.
const (
	Single   Mode = iota // one server
	Sentinel             // one server of several, which Sentinel names
	Cluster              // several servers, each with a part of the keys
)

// Options say how to reach the servers.
type Options struct {
	Mode   Mode
	Addrs  []string // host:port of the server, of the Sentinels, or of some servers of the Cluster
	Master string   // the name of the server at the Sentinels
	DB     int      // not with a Cluster

	Username, Password                 string // "" means none
	SentinelUsername, SentinelPassword string

	// TLS returns the configuration of TLS for a new connection, to Sentinels too. Without a server
	// name in it, the host of the address is demanded. nil means plain TCP.
	TLS func() (*tls.Config, error)

	Prefix string // begins all keys
}

// Bounds of connections and times.
const (
	dialTimeout = 2 * time.Second
	ioTimeout   = 2 * time.Second

	// maxWaiting bounds the reads that wait at one time; the others wait for their turn.
	maxWaiting = 256

	// waitSlice is the longest time for which the server is asked to wait, and so the longest
	// time for which a read that was given up keeps its connection.
	waitSlice = time.Second
)

// Store is a store in Redis. It is made by Open.
type Store struct {
	prefix  string
	client  redis.UniversalClient
	cluster bool

	known sync.Map // digests of the scripts that the server has run

	waiting redis.UniversalClient // for reads that wait
	turns   chan struct{}
	running sync.WaitGroup // reads that wait and new connections, also those that were given up
	closing context.Context
	end     context.CancelFunc
}

var _ store.Store = (*Store)(nil)

// The library logs by itself with package log. The errors that it returns say the same.
var silence = sync.OnceFunc(func() { redis.SetLogger(noLog{}) })

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// Open returns a store. It does not connect: servers may be started later. The caller closes it.
func Open(o Options) *Store {
	silence()
	s := &Store{prefix: o.Prefix + ":v1:", cluster: o.Mode == Cluster, turns: make(chan struct{}, maxWaiting)}
	s.closing, s.end = context.WithCancel(context.Background())
	s.client = s.open(o, 0, false)
	s.waiting = s.open(o, maxWaiting, true)
	return s
}

// open returns a client with a pool of this size; 0 means the usual size. It says whether operations wait.
func (s *Store) open(o Options, pool int, waits bool) redis.UniversalClient {
	u := &redis.UniversalOptions{
		Addrs: o.Addrs, MasterName: o.Master, PoolSize: pool, // the connector logs in
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		Protocol: 2, DisableIdentity: true, // one round trip less for each connection
		PipelinePoolSize: -1, // pipelines use the same connections
		MaxRetries:       -1, // see the guarantees
		DialTimeout:      dialTimeout, DialerRetries: 1, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, ContextTimeoutEnabled: true,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
	}
	if o.TLS != nil {
		u.Dialer = o.dialTLS
	}
	switch o.Mode {
	case Sentinel:
		client := redis.NewFailoverClient(u.Failover())
		s.connect(o, client, waits)
		return client
	case Cluster:
		c := u.Cluster()
		c.DisableRoutingPolicies = true // all commands here have one key
		cluster := redis.NewClusterClient(c)
		cluster.OnNewNode(func(node *redis.Client) { s.connect(o, node, waits) })
		return cluster
	}
	client := redis.NewClient(u.Simple())
	s.connect(o, client, waits)
	return client
}

// dialTLS opens a connection with TLS.
func (o Options) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	config, err := o.TLS()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
}

// Close ends all reads and closes all connections.
func (s *Store) Close() error {
	s.end()
	err := s.client.Close()
	if e := s.waiting.Close(); err == nil {
		err = e
	}
	s.running.Wait()
	return err
}

// key returns the name of a key in Redis.
func (s *Store) key(k store.Key) string { return s.prefix + k.Kind + ":" + digest(k.Name) }

// digest returns 128 bits of a name's digest, which do not tell the name.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// millis returns a time to live in milliseconds, rounded up.
func millis(d time.Duration) int64 { return max(1, int64((d+time.Millisecond-1)/time.Millisecond)) }

// failed returns the error of an operation as [store.Store] promises. A reply that is absent is no
// error.
func failed(ctx context.Context, err error) error {
	switch {
	case err == nil || err == redis.Nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(err.Error(), "WRONGTYPE"): // in the error of a script it is not the prefix
		return store.ErrWrongType
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// once is a command that is not repeated after an error, also not by the client of a Cluster.
type once struct{ *redis.Cmd }

// NoRetry tells the library.
func (once) NoRetry() bool { return true }

// do sends a command once and returns its reply.
func (s *Store) do(ctx context.Context, args ...any) (any, error) {
	cmd := once{redis.NewCmd(ctx, args...)}
	_ = s.client.Process(ctx, cmd) // the command has the error
	return cmd.Result()
}

// script is a script in Lua.
type script struct{ source, hash string }

func newScript(source string) script { return script{source, redis.NewScript(source).Hash()} }

// run runs a script. The server knows it by its digest from the second time on, until it restarts. It is sent whole at
// first, because a digest that the server does not know takes a round trip more.
func (s *Store) run(ctx context.Context, sc script, keys []string, args ...any) (any, error) {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", sc.hash, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	all = append(all, args...)
	_, known := s.known.Load(sc.hash)
	var reply any
	var err error
	if known {
		reply, err = s.do(ctx, all...)
	}
	if lost := redis.HasErrorPrefix(err, "NOSCRIPT"); lost || !known { // it was not run
		if lost {
			s.known.Clear()
		}
		all[0], all[1] = "eval", sc.source
		if reply, err = s.do(ctx, all...); err == nil {
			s.known.Store(sc.hash, nil)
		}
	}
	return reply, failed(ctx, err)
}
