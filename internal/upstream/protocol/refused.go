package protocol

import (
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"mcpgateway/internal/wire"
)

// What helps against questions that nobody can be told to be asked.
const (
	OwnSessions = "session: per-client gives each client with a session, and with command its own process; " +
		"ask_calls: serialize lets one call at a time run; both are keys of the upstream"
	noCall = "the server must ask while a call of the client runs that it asks for; session: per-client gives " +
		"each client with a session one of its own"
)

// unowned logs and counts a question that is refused because nobody can be told to
// be the one who is meant. What the question says is not logged.
func (c *Config) unowned(t *PendingCalls, method string) {
	if wire.MethodOf(method).Kind != wire.KindAsk || method == wire.MethodRootsList && !c.Owner.RelaysRoots() {
		return // it is answered without a client
	}
	c.Owner.Refused(method)
	if !c.Refusals.Allow() {
		return
	}
	clients, calls, asking := t.crowd()
	why, help := "calls of several clients are in flight, and it may be that of any", OwnSessions
	if clients == 0 {
		why, help = "no call of a client is in flight", noCall
	}
	c.Logger.Info("a question of the server was refused: nobody knows whom it is for", zap.String("method", method), zap.String("why", why),
		zap.Int("clients", clients), zap.Int("calls", calls), zap.Int("calls_that_wait_for_their_client", asking), zap.String("help", help))
}

// NewRefusals bounds how often [Config.unowned] logs.
func NewRefusals() *rate.Limiter { return rate.NewLimiter(rate.Limit(0.1), 5) }

// askState is a back channel that knows whether a request of the server waits for its
// client.
type askState interface{ IsAsking() bool }

// crowd tells whose calls are in flight: how many clients have any, how many calls
// there are, and how many of those wait for their client to answer a question,
// parked ones among them. They are in flight all the same: the server may ask
// again for any of them.
func (t *PendingCalls) crowd() (clients, calls, asking int) {
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
