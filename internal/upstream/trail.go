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
	// maxVia bounds how many gateways one upstream may lead to, and with that the
	// length of any chain of them.
	maxVia = 64
	// maxStarts bounds how many gateways may have started one another.
	maxStarts = 8
	maxID     = 64
)

// Trail knows which gateways stand before and behind this one. All methods may be
// called by many goroutines at once. The nil Trail knows nobody and says nothing.
type Trail struct {
	id     string
	before []string // gateways that started this one to be its client
	sent   string

	mu     sync.Mutex
	behind map[string]seenVia // by the life of an upstream
	said   atomic.Pointer[string]
}

// seenVia is what an upstream said last.
type seenVia struct {
	text string
	ids  []string
}

// NewTrail returns the Trail of this process. started is what the gateway that
// started it has put into the variable, "" when none did or when that one is not
// its client. The error says that there are too many of them.
func NewTrail(started string) (*Trail, error) {
	t := &Trail{id: rand.Text(), before: idsIn(started), behind: make(map[string]seenVia)}
	if len(t.before) >= maxStarts {
		return nil, fmt.Errorf("more than %d gateways have started one another: an entry of a configuration starts the gateway itself; remove it", maxStarts)
	}
	t.sent = strings.Join(append([]string{t.id}, t.before...), ",")
	t.said.Store(&t.id) // those before are no news to them: they are not behind this gateway
	return t, nil
}

// Sent is what the gateway says of itself to upstreams, "" for nothing.
func (t *Trail) Sent() string {
	if t == nil {
		return ""
	}
	return t.sent
}

// Said is what the gateway says to gateways that are its clients: who it is, and
// which gateways are behind it.
func (t *Trail) Said() string { return *t.said.Load() }

// Returns reports whether a request that came with this is one of the gateway's
// own.
func (t *Trail) Returns(via string) bool { return slices.Contains(idsIn(via), t.id) }

// met takes in what an upstream says. The error, a *CallError, says that the upstream
// leads back to this gateway, or through too many.
func (t *Trail) met(upstream, via string) error {
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
		return trailFault(reasonLoop)
	case len(ids) > maxVia:
		return trailFault(fmt.Sprintf("it leads through more than %d gateways", maxVia))
	}
	t.behind[upstream] = seenVia{via, ids}
	t.say()
	return nil
}

// trailFault is the fault of a conversation that is ended for what is behind the
// upstream, not for how it speaks.
func trailFault(reason string) *protocol.CallError {
	return &protocol.CallError{Reason: reason, ConnectionLost: true, ConversationClosed: true}
}

// left forgets what an upstream said.
func (t *Trail) left(upstream string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.behind[upstream]; ok {
		delete(t.behind, upstream)
		t.say()
	}
}

// say renews what is said. The caller holds mu.
func (t *Trail) say() {
	var ids []string
	for _, v := range t.behind {
		ids = append(ids, v.ids...)
	}
	slices.Sort(ids)
	text := strings.Join(append([]string{t.id}, slices.Compact(ids)...), ",")
	t.said.Store(&text)
}

// ReasonReturned is what a gateway answers to a request of its own.
const ReasonReturned = "this request has come back to the gateway that sent it: one of the gateway's upstreams leads to the gateway itself"

// reasonLoop is what clients read of an upstream that does.
const reasonLoop = "it leads back to this gateway: its tools would be listed again and again; give the gateway the server behind it, or remove this upstream"

// idsIn reads a list of ids, leaving out what is none. It reads no more than are
// too many.
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
