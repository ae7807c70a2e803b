package gateway

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/seal"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/redis"
)

// shared is the store that replicas share. The Store seals its values, and answers soon.
type shared struct {
	store.Store
	guard   *store.Guarded
	servers *redis.Store
}

// openStore opens the configured store. It does not wait for its servers. It returns nil with kind
// memory, and for a gateway that serves its own process or the demo.
func (g *Gateway) openStore() *shared {
	if g.cfg.Store.Kind != config.StoreRedis || g.demo || g.inProcess {
		return nil
	}
	s := &shared{servers: redis.Open(storeOptions(g.cfg, g.log))}
	metrics, log := store.NewMetrics(), g.log.Named("store")
	s.guard = store.NewGuarded(s.servers, metrics, func(up bool, why error) {
		if up {
			log.Info("the store works again")
		} else {
			log.Warn("the store is away; the gateway goes on with what this replica has", zap.Error(why))
		}
	})
	s.Store = store.Sealed(s.guard, storeSealKeys(g.cfg), func(kind string, err error) {
		metrics.Refused()
		g.ratelog.Warn("something in the store was refused", zap.String("kind", kind), zap.String("reason", refusal(err)))
	})
	g.registry.MustRegister(metrics.Collectors()...)
	return s
}

// storeSealKeys returns the keys that seal what is in the store.
func storeSealKeys(cfg *config.Config) [][]byte {
	if keys := cfg.Store.SealKeys(); len(keys) > 0 {
		return keys
	}
	return cfg.Bridge.SealKeys()
}

// refusal says in words why something in the store was refused.
func refusal(err error) string {
	switch err {
	case seal.ErrUnknownKey:
		return "it is sealed with a key that this replica does not have"
	case seal.ErrTampered:
		return "it was changed, or belongs to another key"
	}
	return "it is not sealed"
}

// storeOptions translates the configuration of the store.
func storeOptions(cfg *config.Config, log *zap.Logger) redis.Options {
	servers, err := cfg.Store.Servers()
	if err != nil {
		panic("gateway: the configuration was not checked: " + err.Error())
	}
	o := redis.Options{
		Addrs: servers.Addrs, Master: servers.Master, DB: servers.DB, Prefix: cfg.Store.Prefix,
		Username: servers.Username, Password: servers.Password,
		SentinelUsername: servers.SentinelUsername, SentinelPassword: servers.SentinelPassword,
	}
	switch {
	case servers.Sentinel:
		o.Mode = redis.Sentinel
	case servers.Cluster:
		o.Mode = redis.Cluster
	}
	if servers.TLS {
		o.TLS = filesToward("store.tls", cfg.Store.TLS, log.Named("store")).Get
	}
	return o
}

// close closes the store. s may be nil.
func (s *shared) close() {
	if s != nil {
		_ = s.servers.Close() // of connections, after which nothing is done with them
	}
}

// runStore watches the store until life ends.
func (g *Gateway) runStore(life context.Context) error {
	if g.store != nil {
		g.store.guard.Run(life)
	}
	return nil
}

// failingStore says that the store is away, "" if it works or there is none.
func (g *Gateway) failingStore() string {
	if g.store == nil {
		return ""
	}
	up, since, why := g.store.guard.Health()
	if up {
		return ""
	}
	return fmt.Sprintf("the store is away since %s, and this replica goes on with what it has: %v", since.UTC().Format(time.RFC3339), why)
}

// CheckStoreTLS returns why the files of the key store.tls cannot be used, nil if they can or if there are none.
func CheckStoreTLS(cfg *config.Config) error {
	if cfg.Store.Kind != config.StoreRedis {
		return nil
	}
	_, err := filesToward("store.tls", cfg.Store.TLS, zap.NewNop()).Get()
	return err
}

// storeCheckTime bounds how long a check waits for an answer of the store.
const storeCheckTime = 5 * time.Second

// CheckStore reports why the configured store cannot be used. It is nil with kind memory.
func CheckStore(ctx context.Context, cfg *config.Config) error {
	if cfg.Store.Kind != config.StoreRedis {
		return nil
	}
	s := redis.Open(storeOptions(cfg, zap.NewNop()))
	defer s.Close()
	return store.Check(ctx, s, storeCheckTime)
}
