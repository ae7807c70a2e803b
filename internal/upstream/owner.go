package upstream

import (
	"context"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// conversation returns the options that every transport needs.
func (o *Options) conversation() *protocol.Config {
	return &protocol.Config{
		Logger: o.Logger, Mask: o.Mask, MaxMessage: o.MaxMessage, Limits: o.Parse,
		Era: o.Era, Memory: keyedEra{o.Memory, o.EraKey}, Info: o.Info, Roots: o.Roots,
		Owner: sessionOwner{o}, Loops: loops{o.LoopDetector, o.instance}, Refusals: o.refusals, Throttle: o.throttle,
	}
}

// keyedEra is the entry of one server in an EraMemory.
type keyedEra struct {
	memory EraMemory
	key    string
}

func (k keyedEra) Era() wire.Era { return k.memory.Era(k.key) }

func (k keyedEra) Remember(era wire.Era) {
	if k.Era() != era {
		k.memory.Remember(k.key, era)
	}
}

// loops is the LoopDetector as the connectors of one upstream see it.
type loops struct {
	detector *LoopDetector
	instance string
}

func (l loops) Via() string            { return l.detector.Sent() }
func (l loops) Check(via string) error { return l.detector.check(l.instance, via) }
func (l loops) Forget()                { l.detector.forget(l.instance) }

// sessionOwner implements [connector.Session] for the session of a connector, and
// [protocol.SessionOwner] for its conversations.
type sessionOwner struct{ o *Options }

func (s sessionOwner) Capabilities() wire.Raw {
	if p := s.o.scope; p != nil {
		return p.declared.Load().capabilities
	}
	return protocol.GatewayCapabilities(len(s.o.Roots) > 0)
}

func (s sessionOwner) RelaysRoots() bool { return s.o.scope.relaysRoots() }

func (s sessionOwner) Principal() *call.Principal { return s.o.scope.principal() }

func (s sessionOwner) Addressee(method string, inFlight *call.Call) *call.Call {
	if p := s.o.scope; p != nil {
		return p.askRecipient(method, inFlight)
	}
	return inFlight
}

func (s sessionOwner) Task(id string) *call.Call {
	if s.o.Outside == nil {
		return nil
	}
	return s.o.Outside.Task(s.o.origin(), id)
}

func (s sessionOwner) Answered(method string) { s.o.scope.answered(method) }

func (s sessionOwner) Refused(method string) {
	if s.o.AskRefused != nil {
		s.o.AskRefused(method)
	}
}

func (s sessionOwner) ConnectionFailed() { s.o.scope.probeCatalogSession(protocol.ConnectionFailed) }

func (s sessionOwner) Printed(text []byte) { s.o.printed(text) }

func (s sessionOwner) Skipped(line []byte) { s.o.Health.Skip(line, s.o.Mask) }

func (s sessionOwner) Wrote(line string, isError bool) { s.o.wrote(line, isError) }

func (s sessionOwner) Declare(ctx context.Context) { s.o.scope.declareFor(ctx, s.o) }

func (s sessionOwner) AwaitSettled(ctx context.Context, conn protocol.Conn) {
	s.o.scope.awaitSettled(ctx, conn)
}

func (s sessionOwner) AddCall(c *call.Call) (remove func()) { return s.o.scope.addCall(c) }

func (s sessionOwner) Suspect(why protocol.Suspicion) { s.o.scope.probeCatalogSession(why) }

func (s sessionOwner) Changed(shot connector.Snapshot) {
	switch p := s.o.scope; p.role() {
	case connector.GathersCatalog:
		if s.o.Observer != nil {
			s.o.Observer.Changed(shot)
		}
	case connector.GathersLists:
		if s.o.Gathered != nil {
			s.o.Gathered(p.origin.Principal)
		}
	}
}

func (s sessionOwner) Notified(method string, params wire.Raw) {
	if p := s.o.scope; p.role() == connector.OnlyCalls && !p.passes(method) {
		p.catalogSession.Notified(method, params)
		return
	}
	if s.o.Observer != nil {
		s.o.Observer.Notified(s.o.origin(), method, params)
	}
}
