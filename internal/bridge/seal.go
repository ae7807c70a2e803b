package bridge

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"mcpgateway/internal/seal"
)

// StateKind is the kind of a request state.
type StateKind byte

const (
	// UpstreamState holds the requestState of a modern upstream.
	UpstreamState StateKind = 'r'
	// NoUpstreamState is for a modern upstream that sent no requestState. The call continues
	// with the answers of the retry.
	NoUpstreamState StateKind = 'b'
	// Resend has the call sent to its upstream again, without the answers of the retry.
	Resend StateKind = 'a'
	// Parked names a call that waits for the answers of the retry.
	Parked StateKind = 'p'
	// Consent is the gateway's own question whether the call may be made. The retry has the
	// answer, and no upstream has seen the call yet.
	Consent StateKind = 'c'
)

// State is the content of a request state.
type State struct {
	Kind StateKind
	// Recipient is the upstream that is called, or the replica that holds the parked call.
	Recipient string
	// Text is the requestState of the upstream, or the name of the parked call.
	Text string
	// Round counts the states of one parked call.
	Round   uint32
	Expires time.Time // in whole milliseconds
	// Token makes the state valid for one use: the router redeems the token. The state
	// of a Consent always has one. In another state it says that the user has consented
	// to the call.
	Token string
	// Request is the id of the request that began the parked call, "" in other states and in those
	// of older versions. In the sealed text it is in the place of Token, which the state of a parked
	// call does not have.
	Request string
	// Trace is the traceparent of the call that ended with the state, "" if it was not traced. In
	// the sealed text it is behind Recipient and a null byte.
	Trace string
}

// Reasons why a request state is refused. Clients do not learn the reason.
var (
	ErrMalformed  = errors.New("the request state is malformed")
	ErrUnknownKey = errors.New("the request state is sealed with a key that this replica does not have")
	ErrTampered   = errors.New("the request state was changed")
	ErrExpired    = errors.New("the request state has expired")
	ErrPrincipal  = errors.New("the request state belongs to another principal")
	ErrRequest    = errors.New("the request state belongs to another request")
)

// KeySize is the length of a sealing key in bytes.
const KeySize = seal.KeySize

// Sealer makes request states that only it can read, and opens them again. The content of a
// sealed text is
//
//	expiry ‖ binding ‖ round ‖ recipient ‖ token ‖ text
type Sealer struct{ sealer *seal.Sealer }

// statePurpose is the purpose of what a Sealer seals, see [seal.New].
const statePurpose = "mcpgateway request state"

// bodyHead is the size of the expiry, the binding, the round, and the lengths of the recipient
// and the token.
const bodyHead = 8 + 2*sha256.Size + 4 + 2 + 2

// NewSealer returns a Sealer that seals with the first key and opens with any. Without keys it
// makes a random one. It panics if a key does not have KeySize bytes.
func NewSealer(keys ...[]byte) *Sealer { return &Sealer{seal.New(statePurpose, keys...)} }

// Seal returns the request state of a binding.
func (s *Sealer) Seal(st State, b Binding) string {
	if st.Trace != "" {
		st.Recipient += "\x00" + st.Trace
	}
	if st.Kind == Parked {
		st.Token = st.Request
	}
	body := make([]byte, 0, bodyHead+len(st.Recipient)+len(st.Token)+len(st.Text))
	body = binary.BigEndian.AppendUint64(body, uint64(st.Expires.UnixMilli()))
	body = append(body, b.principal[:]...)
	body = append(body, b.request[:]...)
	body = binary.BigEndian.AppendUint32(body, st.Round)
	body = binary.BigEndian.AppendUint16(body, uint16(len(st.Recipient)))
	body = binary.BigEndian.AppendUint16(body, uint16(len(st.Token)))
	body = append(append(append(body, st.Recipient...), st.Token...), st.Text...)
	return s.sealer.Seal(byte(st.Kind), body)
}

// Open returns what was sealed, if it was sealed for this binding and now is
// before its end. The error is one of those above.
func (s *Sealer) Open(sealed string, b Binding, now time.Time) (State, error) {
	kind, body, err := s.sealer.Open(sealed)
	if err != nil {
		return State{}, stateErrors[err]
	}
	if len(body) < bodyHead {
		return State{}, ErrTampered
	}
	st := State{Kind: StateKind(kind), Expires: time.UnixMilli(int64(binary.BigEndian.Uint64(body)))}
	principal, body := body[8:8+sha256.Size], body[8+sha256.Size:]
	request, body := body[:sha256.Size], body[sha256.Size:]
	st.Round = binary.BigEndian.Uint32(body)
	holder, token := int(binary.BigEndian.Uint16(body[4:])), int(binary.BigEndian.Uint16(body[6:]))
	body = body[8:]
	if holder+token > len(body) {
		return State{}, ErrTampered
	}
	st.Recipient, st.Token, st.Text = string(body[:holder]), string(body[holder:holder+token]), string(body[holder+token:])
	st.Recipient, st.Trace, _ = strings.Cut(st.Recipient, "\x00")
	if st.Kind == Parked {
		st.Token, st.Request = "", st.Token
	}
	switch {
	case subtle.ConstantTimeCompare(principal, b.principal[:]) == 0:
		return State{}, ErrPrincipal
	case subtle.ConstantTimeCompare(request, b.request[:]) == 0:
		return State{}, ErrRequest
	case !now.Before(st.Expires):
		return State{}, ErrExpired
	}
	return st, nil
}

// stateErrors are the errors for those of [seal.Sealer.Open].
var stateErrors = map[error]error{seal.ErrMalformed: ErrMalformed, seal.ErrUnknownKey: ErrUnknownKey, seal.ErrTampered: ErrTampered}

// KindOf returns the kind that a request state claims to have, 0 when it has
// not the form of one. Only Open says whether the claim is true.
func KindOf(sealed string) StateKind { return StateKind(seal.KindOf(sealed)) }
