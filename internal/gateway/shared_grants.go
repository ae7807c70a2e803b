package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/redis"
)

// kindGrantChanged is the kind of the notes about grants that were given or removed. A note is the name of a grant.
const kindGrantChanged = "grant-changed"

// tellGrantTime bounds how long a replica waits until the others know of a change of a grant.
const tellGrantTime = 2 * time.Second

// newGrants returns the grants of users of a gateway, which shares them with its replicas if s is not nil.
func (g *Gateway) newGrants(s store.Store) *openedGrants {
	if s == nil && g.inProcess && g.cfg.Store.Kind == config.StoreRedis {
		return sharedGrants(g.cfg) // it is no replica, and calls with the grants that replicas share
	}
	return &openedGrants{Store: credentials.OpenStore(credentials.StoreOptions{
		Folder: g.state.Path(), Shared: s, Changed: g.grantChanged,
		Removed: func(upstream, subject, why string) {
			g.log.Info("a grant was removed", zap.String("upstream", upstream), zap.String("principal", subject), zap.String("reason", why))
		},
		Unsaved: func(err error) {
			g.ratelog.Warn("a renewed grant cannot be stored for now; it is kept in memory", withCause(err))
		},
	}), close: func() {}}
}

// grantChanged tells the other replicas that a grant was given or removed here, and waits until they know.
func (g *Gateway) grantChanged(ctx context.Context, name string) {
	if g.sharing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellGrantTime)
	defer cancel()
	sessionPeers{g.sharing.replicas}.TellNow(ctx, kindGrantChanged, []byte(name))
}

// grantChangedElsewhere takes a note about a grant. The next call of its principal reads the grant again.
func (g *Gateway) grantChangedElsewhere(note []byte) {
	name := string(note)
	if source := g.credentialsOf(credentials.UpstreamOf(name)); source != nil {
		source.GrantChanged(name)
		g.principals.ExpireGatherings()
	}
}

// openedGrants are the grants of users where the gateways of a configuration have them.
type openedGrants struct {
	*credentials.Store
	close   func()
	refused atomic.Pointer[error] // why something in the store could not be opened
}

// openGrants opens the grants for a process that is no gateway.
func openGrants(cfg *config.Config) (*openedGrants, error) {
	switch {
	case cfg.Store.Kind == config.StoreRedis:
		return sharedGrants(cfg), nil
	case cfg.StateDir == "":
		return nil, errNoStateDir
	}
	return &openedGrants{Store: credentials.NewStore(cfg.StateDir), close: func() {}}, nil
}

// sharedGrants opens the grants that the replicas of a configuration share, for a process that is none of them. It tells them of
// changes.
func sharedGrants(cfg *config.Config) *openedGrants {
	servers := redis.Open(storeOptions(cfg, zap.NewNop()))
	grants := &openedGrants{close: func() {
		_ = servers.Close() // of connections, after which nothing is done with them
	}}
	sealed := store.Sealed(servers, storeSealKeys(cfg), func(_ string, err error) {
		reason := errors.New(refusal(err))
		grants.refused.Store(&reason)
	})
	name := rand.Text()
	grants.Store = credentials.OpenStore(credentials.StoreOptions{
		Shared: sealed,
		Changed: func(ctx context.Context, grant string) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellGrantTime)
			defer cancel()
			_ = replica.Post(ctx, sealed, name, kindGrantChanged, []byte(grant)) // otherwise they read the grant again within half a minute
		},
	})
	return grants
}
