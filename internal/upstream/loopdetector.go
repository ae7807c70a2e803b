package upstream

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mcpgateway/internal/upstream/protocol"
)

const (
	// maxVia bounds the gateways behind one upstream, and thereby the length of a chain.
	maxVia = 64
	// maxStarts bounds the gateways that have started one another.
	maxStarts = 8
	maxID     = 64
)

// LoopDetector keeps the ids of the gateways in front of and behind this one. All
// methods may be called concurrently. A nil LoopDetector detects nothing.
type LoopDetector struct {
	id     string
	before []string // gateways that started this one as their server
	sent   string

	mu     sync.Mutex
	behind map[string]seenVia // by the instance of a connector
	said   atomic.Pointer[string]
}

// seenVia is the last value of an upstream.
type seenVia struct {
	text string
	ids  []string
}

// NewLoopDetector returns the LoopDetector of this process. started is the value of
// VariableVia, "" if no gateway started this process as its server. The error says that
// too many gateways have started one another.
func NewLoopDetector(started string) (*LoopDetector, error) {
	t := &LoopDetector{id: rand.Text(), before: idsIn(started), behind: make(map[string]seenVia)}
	if len(t.before) >= maxStarts {
		return nil, fmt.Errorf("more than %d gateways have started one another: an entry of a configuration starts the gateway itself; remove it", maxStarts)
	}
	t.sent = strings.Join(append([]string{t.id}, t.before...), ",")
	t.said.Store(&t.id) // gateways before this one are not behind it
	return t, nil
}

// Sent is the value toward upstreams, "" for none.
func (t *LoopDetector) Sent() string {
	if t == nil {
		return ""
	}
	return t.sent
}

// Said is the value toward clients that are gateways: the id of this gateway, and of the
// gateways behind it.
func (t *LoopDetector) Said() string { return *t.said.Load() }

// Returns reports whether a request with this value was sent by this gateway.
func (t *LoopDetector) Returns(via string) bool { return slices.Contains(idsIn(via), t.id) }

// check takes the value of an upstream. The error, a *CallError, says that the upstream
// leads back to this gateway, or through too many gateways.
func (t *LoopDetector) check(upstream, via string) error {
	if t == nil || via == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.behind[upstream].text == via {
		return nil
	}
	ids := idsIn(via)
	switch {
	case slices.Contains(ids, t.id), slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(t.before, id) }):
		return loopError(reasonLoop)
	case len(ids) > maxVia:
		return loopError(fmt.Sprintf("it leads through more than %d gateways", maxVia))
	}
	t.behind[upstream] = seenVia{via, ids}
	t.publish()
	return nil
}

// loopError is the error of a conversation that ends because of the gateways behind the
// upstream.
func loopError(reason string) *protocol.CallError {
	return &protocol.CallError{Reason: reason, ConnectionLost: true, ConversationClosed: true}
}

// forget forgets the value of an upstream.
func (t *LoopDetector) forget(upstream string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.behind[upstream]; ok {
		delete(t.behind, upstream)
		t.publish()
	}
}

// publish renews the value toward clients. The caller holds mu.
func (t *LoopDetector) publish() {
	var ids []string
	for _, v := range t.behind {
		ids = append(ids, v.ids...)
	}
	slices.Sort(ids)
	text := strings.Join(append([]string{t.id}, slices.Compact(ids)...), ",")
	t.said.Store(&text)
}

// ReasonReturned is the error for a request that this gateway sent itself.
const ReasonReturned = "this request has come back to the gateway that sent it: one of the gateway's upstreams leads to the gateway itself"

// reasonLoop is the reason why an upstream that leads back is down.
const reasonLoop = "it leads back to this gateway: its tools would be listed again and again; give the gateway the server behind it, or remove this upstream"

// idsIn reads a list of ids, without invalid ones. It stops after more than maxVia.
func idsIn(via string) []string {
	var ids []string
	for id := range strings.SplitSeq(via, ",") {
		id = strings.TrimSpace(id)
		if id == "" || len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			continue
		}
		if ids = append(ids, id); len(ids) > maxVia {
			break
		}
	}
	return ids
}
