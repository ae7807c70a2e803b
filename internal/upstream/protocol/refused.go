package protocol

import (
	"maps"
	"slices"

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
	now := t.inFlight()
	why, help := "calls of several clients are in flight, and it may be that of any", OwnSessions
	if now.clients == 0 {
		why, help = "no call of a client is in flight", noCall
	}
	c.Logger.Info("a question of the server was refused: nobody knows whom it is for", zap.String("method", method), zap.String("why", why),
		zap.Int("clients", now.clients), zap.Int("calls", now.calls), zap.Strings("requests", now.requests), zap.Int("calls_that_wait_for_their_client", now.asking), zap.String("help", help))
}

// NewRefusals returns the limiter for [Config.Refusals].
func NewRefusals() *rate.Limiter { return rate.NewLimiter(rate.Limit(0.1), 5) }

// askState is a back channel that knows whether a request of the server waits for its
// client.
type askState interface{ IsAsking() bool }

// maxRefusedRequests bounds the request ids in the line of a refused request.
const maxRefusedRequests = 16

// inFlight describes the pending calls of clients.
type inFlight struct {
	clients, calls int
	// asking counts the calls that wait for their client to answer a request of the server. A
	// parked call counts as pending, since the server may send another request for it.
	asking   int
	requests []string // the ids of the oldest calls
}

func (t *PendingCalls) inFlight() (now inFlight) {
	clients := make(map[string]bool)
	ids := make(map[int64]string)
	var backs []askState
	t.mu.Lock()
	for _, f := range t.open {
		if f.Call.Client == nil {
			continue
		}
		clients[f.Call.Client.Key] = true
		ids[f.seq] = f.Call.ID
		if g, ok := f.Call.Back.(askState); ok {
			backs = append(backs, g)
		}
	}
	t.mu.Unlock()
	for _, g := range backs {
		if g.IsAsking() {
			now.asking++
		}
	}
	oldest := slices.Sorted(maps.Keys(ids))
	for _, seq := range oldest[:min(len(oldest), maxRefusedRequests)] {
		now.requests = append(now.requests, ids[seq])
	}
	now.clients, now.calls = len(clients), len(ids)
	return now
}
