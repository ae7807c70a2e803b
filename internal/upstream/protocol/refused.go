package protocol

import (
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"mcpgateway/internal/wire"
)

// Advice for the log about requests of a server that belong to no certain client.
const (
	OwnSessions = "session: per-client gives each client with a session, and with command its own process; " +
		"ask_calls: serialize lets one call at a time run; both are keys of the upstream"
	noCall = "the server must ask while a call of the client runs that it asks for; session: per-client gives " +
		"each client with a session one of its own"
)

// logRefused logs and counts a request of the server that is refused because its client
// is not certain. The params are not logged.
func (c *Config) logRefused(t *PendingCalls, method string) {
	if wire.MethodOf(method).Kind != wire.KindAsk || method == wire.MethodRootsList && !c.Owner.RelaysRoots() {
		return // it is answered without a client
	}
	c.Owner.Refused(method)
	if !c.Refusals.Allow() {
		return
	}
	clients, calls, asking := t.countInFlight()
	why, help := "calls of several clients are in flight, and it may be that of any", OwnSessions
	if clients == 0 {
		why, help = "no call of a client is in flight", noCall
	}
	c.Logger.Info("a question of the server was refused: nobody knows whom it is for", zap.String("method", method), zap.String("why", why),
		zap.Int("clients", clients), zap.Int("calls", calls), zap.Int("calls_that_wait_for_their_client", asking), zap.String("help", help))
}

// NewRefusals returns the limiter for [Config.Refusals].
func NewRefusals() *rate.Limiter { return rate.NewLimiter(rate.Limit(0.1), 5) }

// askState is a back channel that knows whether a request of the server waits for its
// client.
type askState interface{ IsAsking() bool }

// countInFlight counts the pending calls of clients: how many clients there are, how many
// calls, and how many of the calls wait for their client to answer a request of the
// server. A parked call counts too, since the server may send another request for it.
func (t *PendingCalls) countInFlight() (clients, calls, asking int) {
	seen := make(map[string]bool)
	var backs []askState
	t.mu.Lock()
	for _, f := range t.open {
		if f.Call.Client == nil {
			continue
		}
		seen[f.Call.Client.Key] = true
		calls++
		if g, ok := f.Call.Back.(askState); ok {
			backs = append(backs, g)
		}
	}
	t.mu.Unlock()
	for _, g := range backs {
		if g.IsAsking() {
			asking++
		}
	}
	return len(seen), calls, asking
}
