package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// First letters of the names of sessions: what the key is.
const (
	ofClient    = 'c' // a client
	ofPrincipal = 'p' // a principal
	ofSet       = 's' // the set of capabilities of its clients
)

// nameOf returns the name of a session. All names have one length and hide the key,
// which may be a secret.
func nameOf(kind byte, key string) string {
	sum := sha256.Sum256([]byte(key))
	return string(kind) + hex.EncodeToString(sum[:16])
}

// resolve returns the kind and name of the session for the calls of c's client; "" is
// the catalog session. The error is one of [connector.Connector.Do].
func (s *Sessions) resolve(ctx context.Context, c *call.Call) (kind byte, name string, err error) {
	if s.o.OnlyClient != nil {
		return 0, "", nil
	}
	if s.authenticates(c) && (s.o.Sharing == PerPrincipal || !reachable(c)) {
		return ofPrincipal, nameOf(ofPrincipal, c.Principal.Key()), nil // in both eras
	}
	from, way, err := s.awaitChannel(ctx, c)
	if err != nil {
		return 0, "", err
	}
	stateless := way == protocol.SessionNone || way == protocol.SessionDual && c.Client.Era() != wire.EraLegacy
	if way == protocol.SessionDual && !stateless {
		has, err := s.hasSessions(ctx, c, from)
		if err != nil {
			return 0, "", err
		}
		stateless = !has
	}
	switch {
	case stateless && s.authenticates(c):
		return ofPrincipal, nameOf(ofPrincipal, c.Principal.Key()), nil
	case stateless:
		return 0, "", nil // every request carries all that the server needs
	case s.o.Sharing == PerClient && reachable(c):
		return ofClient, nameOf(ofClient, c.Client.Key), nil
	case s.o.Sharing != Shared:
		return ofPrincipal, nameOf(ofPrincipal, c.Principal.Key()), nil
	case way != protocol.SessionHTTP && way != protocol.SessionDual:
		return 0, "", nil
	}
	return ofSet, s.setName(c.Client), nil
}

// hasSessions reports whether a server that speaks both eras opens legacy sessions. If
// it only lists a legacy revision, all clients use the modern era.
func (s *Sessions) hasSessions(ctx context.Context, c *call.Call, from *connector.Connector) (bool, error) {
	if s.opensLegacySessions.Load() {
		return true, nil
	}
	bounded, cancel := context.WithTimeoutCause(ctx, s.o.Timeout,
		&protocol.CallError{Reason: fmt.Sprintf("the server did not open a session within %s", s.o.Timeout)})
	defer cancel()
	conn, err := from.Await(bounded, c)
	if err != nil {
		return false, s.refusal(ctx, err)
	}
	open := conn.Traits().OpenLegacy
	if open == nil {
		return false, nil // the server refuses legacy sessions, or has changed
	}
	timer := c.Trace.Start(ctx, call.StageConnect, call.SpanStart{Upstream: s.o.Name})
	opens, err := open(bounded)
	timer.End(err)
	if err != nil {
		if bounded.Err() != nil {
			err = context.Cause(bounded)
		}
		return false, s.refusal(ctx, err)
	}
	if opens {
		s.opensLegacySessions.Store(true)
	}
	return opens, nil
}

// maxSetNames bounds the clients whose set is remembered. A client is forgotten when
// its session ends; all are forgotten when there are too many.
const maxSetNames = 20_000

// setName returns the name of the session for all clients with the capabilities of c,
// "" for the catalog session. Every call looks it up, so it is remembered for a legacy
// client with a session, whose capabilities cannot change.
func (s *Sessions) setName(c *call.Client) string {
	lasting := c.Era() == wire.EraLegacy && !c.Sessionless
	if lasting {
		s.mu.Lock()
		name, known := s.setNames[c.Key]
		s.mu.Unlock()
		if known {
			return name
		}
	}
	name := ""
	if declares := protocol.SharedCapabilities(c, s.o.Roots != nil); !bytes.Equal(declares, protocol.GatewayCapabilities(s.o.Roots != nil)) {
		name = nameOf(ofSet, string(declares))
	}
	if lasting {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.setNames) >= maxSetNames {
			clear(s.setNames)
		}
		s.setNames[c.Key] = name
	}
	return name
}

// newScope returns the scope of a session that c's client opens.
func (s *Sessions) newScope(kind byte, name string, c *call.Call) *sessionScope {
	p := &sessionScope{
		origin: Origin{Upstream: s.o.Name, Session: name}, outside: s.o.Outside, rootsAnswered: make(chan struct{}, 1),
	}
	p.latest.Store(c.Principal)
	var d declaration
	switch kind {
	case ofClient:
		p.origin.Client, p.origin.Who = c.Client, c.Principal
		d.capabilities, d.roots = protocol.RelayedCapabilities(c.Client), c.Client.Can("roots")
	case ofPrincipal:
		p.origin.Principal, p.origin.Who = c.Principal.Key(), c.Principal
		d.capabilities = wire.SetMember(protocol.GatewayCapabilities(false), "roots", wire.Raw(`{"listChanged":true}`))
		if extensions := protocol.ExtensionsOf(c.Client); extensions != nil {
			d.capabilities = wire.SetMember(d.capabilities, "extensions", extensions)
		}
		d.roots = true
		p.gathers = s.gathers(c)
	default:
		d.capabilities = protocol.SharedCapabilities(c.Client, s.o.Roots != nil)
	}
	p.declared.Store(&d)
	return p
}
