package gateway

import (
	"context"

	"go.uber.org/zap"

	"mcpgateway/internal/replica/opensessions"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// sessionBook notes the sessions at one upstream for the other replicas.
type sessionBook struct {
	upstream string
	book     *opensessions.Book
}

func (b sessionBook) entry(s httpconn.OpenSession) opensessions.Session {
	return opensessions.Session{Upstream: b.upstream, URL: s.URL, ID: s.ID, Revision: string(s.Revision)}
}

// Opened implements httpconn.SessionBook.
func (b sessionBook) Opened(s httpconn.OpenSession) { b.book.Opened(b.entry(s)) }

// Closed implements httpconn.SessionBook.
func (b sessionBook) Closed(s httpconn.OpenSession) { b.book.Closed(b.entry(s)) }

// sessionBook returns the book of an upstream, nil without other replicas.
func (g *Gateway) sessionBook(upstream string) httpconn.SessionBook {
	if g.sharing == nil {
		return nil
	}
	return sessionBook{upstream, g.sharing.open}
}

// endLeft ends the sessions that a replica had open at servers when it died. A replica that ends in order ends its sessions itself.
func (g *Gateway) endLeft(ctx context.Context, dead string) {
	n, err := g.sharing.open.EndAll(ctx, dead, func(ctx context.Context, s opensessions.Session) {
		u, ok := g.router.Routes().Upstreams[s.Upstream].(interface {
			EndLeft(context.Context, httpconn.OpenSession) error
		})
		if !ok {
			return // it is not configured any more
		}
		if err := u.EndLeft(ctx, httpconn.OpenSession{URL: s.URL, ID: s.ID, Revision: wire.Revision(s.Revision)}); err != nil {
			g.log.Debug("a session that a replica has left open could not be ended", zap.String("upstream", s.Upstream), zap.Error(err))
		}
	})
	switch {
	case err != nil && ctx.Err() == nil:
		g.log.Warn("the sessions that a replica has left open at servers cannot be ended", zap.String("replica", dead), zap.Error(err))
	case n > 0:
		g.log.Info("the sessions that a replica has left open at servers were ended", zap.String("replica", dead), zap.Int("sessions", n))
	}
}
