package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// What the name of a session beside the head is made of.
const (
	ofClient    = 'c' // the key of a client
	ofPrincipal = 'p' // the key of a principal
	ofSet       = 's' // what its clients can do
)

// nameOf names a session. The name says nothing of the key, which may be a
// secret, and is as long for any.
func nameOf(kind byte, key string) string {
	sum := sha256.Sum256([]byte(key))
	return string(kind) + hex.EncodeToString(sum[:16])
}

// place says which session the calls of c's client belong in: "" is the head. The
// error is that of [Connector.Do].
func (s *Sessions) place(ctx context.Context, c *call.Call) (kind byte, name string, err error) {
	if s.o.OnlyClient != nil {
		return 0, "", nil
	}
	if s.proves(c) && (s.o.Sharing == PerPrincipal || !reachable(c)) {
		return ofPrincipal, nameOf(ofPrincipal, c.Principal.Key()), nil // whatever the server speaks
	}
	from, way, err := s.way(ctx, c)
	if err != nil {
		return 0, "", err
	}
	stateless := way == channelModern || way == channelDual && c.Client.Era() != wire.EraLegacy
	if way == channelDual && !stateless {
		has, err := s.hasSessions(ctx, from)
		if err != nil {
			return 0, "", err
		}
		stateless = !has
	}
	switch {
	case stateless && s.proves(c):
		return ofPrincipal, nameOf(ofPrincipal, c.Principal.Key()), nil
	case stateless:
		return 0, "", nil // every request says all there is to know
	case s.o.Sharing == PerClient && reachable(c):
		return ofClient, nameOf(ofClient, c.Client.Key), nil
	case s.o.Sharing != Shared:
		return ofPrincipal, nameOf(ofPrincipal, c.Principal.Key()), nil
	case way != channelSessions && way != channelDual:
		return 0, "", nil
	}
	return ofSet, s.setOf(c.Client), nil
}

// hasSessions reports whether a server that speaks both eras opens legacy sessions:
// one that only says so is spoken to in the modern era by everybody.
func (s *Sessions) hasSessions(ctx context.Context, from *Connector) (bool, error) {
	if s.opens.Load() {
		return true, nil
	}
	bounded, cancel := context.WithTimeoutCause(ctx, s.o.Timeout,
		&fault{reason: fmt.Sprintf("the server did not open a session within %s", s.o.Timeout)})
	defer cancel()
	conn, err := from.await(bounded, nil)
	if err != nil {
		return false, s.refusal(ctx, err)
	}
	dual, ok := conn.(*dualHTTP)
	if !ok {
		return false, nil // it is not any more what it was
	}
	legacy, err := dual.forLegacy(bounded)
	if err != nil {
		if bounded.Err() != nil {
			err = context.Cause(bounded)
		}
		return false, s.refusal(ctx, err)
	}
	if legacy != nil {
		s.opens.Store(true)
	}
	return legacy != nil, nil
}

// maxKnown bounds the clients whose set is remembered. Those of clients that are
// gone are forgotten when their session ends, or all at once.
const maxKnown = 20_000

// setOf names the shared session of all clients that can do the same as c, "" when
// that is the head. It is looked up for each call, so what it is for a legacy
// client with a session, which cannot change, is remembered.
func (s *Sessions) setOf(c *call.Client) string {
	lasting := c.Era() == wire.EraLegacy && !c.Sessionless
	if lasting {
		s.mu.Lock()
		name, known := s.sets[c.Key]
		s.mu.Unlock()
		if known {
			return name
		}
	}
	name := ""
	if declares := abilities(c, s.o.Roots != nil); !bytes.Equal(declares, ownCapabilities(s.o.Roots != nil)) {
		name = nameOf(ofSet, string(declares))
	}
	if lasting {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.sets) >= maxKnown {
			clear(s.sets)
		}
		s.sets[c.Key] = name
	}
	return name
}

// newPersona returns whom a session stands for that c's client opens.
func (s *Sessions) newPersona(kind byte, name string, c *call.Call) *persona {
	p := &persona{
		origin: Origin{Upstream: s.o.Name, Session: name}, outside: s.o.Outside, told: make(chan struct{}, 1),
	}
	p.who.Store(c.Principal)
	var d declaration
	switch kind {
	case ofClient:
		p.origin.Client, p.origin.Who = c.Client, c.Principal
		d.capabilities, d.roots = relayable(c.Client), c.Client.Can("roots")
	case ofPrincipal:
		p.origin.Principal, p.origin.Who = c.Principal.Key(), c.Principal
		d.capabilities = wire.SetMember(ownCapabilities(false), "roots", wire.Raw(`{"listChanged":true}`))
		if extensions := extensionsOf(c.Client); extensions != nil {
			d.capabilities = wire.SetMember(d.capabilities, "extensions", extensions)
		}
		d.roots = true
		p.gathers = s.gathers(c)
	default:
		d.capabilities = abilities(c.Client, s.o.Roots != nil)
	}
	p.declared.Store(&d)
	return p
}
