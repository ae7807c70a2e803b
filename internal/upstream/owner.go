package upstream

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// conversation returns what the conversations of a connector need to know.
func (o *Options) conversation() *protocol.Config {
	return &protocol.Config{
		Logger: o.Logger, Mask: o.Mask, MaxMessage: o.MaxMessage, Limits: o.Limits,
		Era: o.Era, Memory: keyedEra{o.Memory, o.EraKey}, Info: o.Info, Roots: o.Roots,
		Owner: sessionOwner{o}, Loops: loops{o.LoopDetector, o.instance}, Refusals: o.refusals,
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

// loops is the Trail as one connector sees it.
type loops struct {
	trail *LoopDetector
	life  string
}

func (l loops) Via() string            { return l.trail.Sent() }
func (l loops) Check(via string) error { return l.trail.check(l.life, via) }

// sessionOwner implements [SessionOwner] for the session of a connector.
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

func (s sessionOwner) ConnectionFailed() { s.o.scope.checkCatalogSession() }

func (s sessionOwner) Printed(text []byte) { s.o.babble(text) }
