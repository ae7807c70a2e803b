package bridge

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
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
const KeySize = 32

// Sealer makes request states that only it can read, and opens them again.
//
//	format ‖ kind ‖ key id (4) ‖ salt (24) ‖ AES-256-GCM(expiry ‖ binding ‖ round ‖ recipient ‖ token ‖ text)
//
// in Base64 for URLs. Key and nonce of each state are derived from the sealing
// key and a random salt, so that a key may be used for any number of states.
type Sealer struct {
	keys [][]byte // the first seals, all open
}

const (
	sealFormat = 2
	idSize     = 4
	saltSize   = 24
	clearSize  = 2 + idSize + saltSize
	nonceSize  = 12
	bodyHead   = 8 + 2*sha256.Size + 4 + 2 + 2 // expiry, binding, round, lengths of the recipient and the token
)

// NewSealer returns a Sealer that seals with the first key and opens with any. Without keys it
// makes a random one. It panics if a key does not have KeySize bytes.
func NewSealer(keys ...[]byte) *Sealer {
	if len(keys) == 0 {
		key := make([]byte, KeySize)
		rand.Read(key) // never fails
		keys = [][]byte{key}
	}
	for _, k := range keys {
		if len(k) != KeySize {
			panic(fmt.Sprintf("bridge: a sealing key has %d bytes, not %d", len(k), KeySize))
		}
	}
	return &Sealer{keys: keys}
}

// Seal returns the request state of a binding.
func (s *Sealer) Seal(st State, b Binding) string {
	out := make([]byte, clearSize, clearSize+bodyHead+len(st.Recipient)+len(st.Token)+len(st.Text)+16)
	out[0], out[1] = sealFormat, byte(st.Kind)
	copy(out[2:], keyID(s.keys[0]))
	rand.Read(out[2+idSize:])

	body := make([]byte, 0, cap(out)-clearSize)
	body = binary.BigEndian.AppendUint64(body, uint64(st.Expires.UnixMilli()))
	body = append(body, b.principal[:]...)
	body = append(body, b.request[:]...)
	body = binary.BigEndian.AppendUint32(body, st.Round)
	body = binary.BigEndian.AppendUint16(body, uint16(len(st.Recipient)))
	body = binary.BigEndian.AppendUint16(body, uint16(len(st.Token)))
	body = append(append(append(body, st.Recipient...), st.Token...), st.Text...)

	aead, nonce := derive(s.keys[0], out)
	return base64.RawURLEncoding.EncodeToString(aead.Seal(out, nonce, body, out[:clearSize]))
}

// Open returns what was sealed, if it was sealed for this binding and now is
// before its end. The error is one of those above.
func (s *Sealer) Open(sealed string, b Binding, now time.Time) (State, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(raw) < clearSize || raw[0] != sealFormat {
		return State{}, ErrMalformed
	}
	var key []byte
	for _, k := range s.keys {
		if string(keyID(k)) == string(raw[2:2+idSize]) {
			key = k
			break
		}
	}
	if key == nil {
		return State{}, ErrUnknownKey
	}
	aead, nonce := derive(key, raw)
	body, err := aead.Open(nil, nonce, raw[clearSize:], raw[:clearSize])
	if err != nil || len(body) < bodyHead {
		return State{}, ErrTampered
	}
	st := State{Kind: StateKind(raw[1]), Expires: time.UnixMilli(int64(binary.BigEndian.Uint64(body)))}
	principal, body := body[8:8+sha256.Size], body[8+sha256.Size:]
	request, body := body[:sha256.Size], body[sha256.Size:]
	st.Round = binary.BigEndian.Uint32(body)
	holder, token := int(binary.BigEndian.Uint16(body[4:])), int(binary.BigEndian.Uint16(body[6:]))
	body = body[8:]
	if holder+token > len(body) {
		return State{}, ErrTampered
	}
	st.Recipient, st.Token, st.Text = string(body[:holder]), string(body[holder:holder+token]), string(body[holder+token:])
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

// KindOf returns the kind that a request state claims to have, 0 when it has
// not the form of one. Only Open says whether the claim is true.
func KindOf(sealed string) StateKind {
	head, err := base64.RawURLEncoding.DecodeString(sealed[:min(len(sealed), 4)])
	if err != nil || len(head) < 2 || head[0] != sealFormat {
		return 0
	}
	return StateKind(head[1])
}

// keyID names a key without telling anything of it.
func keyID(key []byte) []byte {
	sum := sha256.Sum256(append([]byte("mcpgateway request state key\x00"), key...))
	return sum[:idSize]
}

// derive returns the cipher and the nonce that belong to a state's salt.
func derive(key, sealed []byte) (cipher.AEAD, []byte) {
	secret, err := hkdf.Key(sha256.New, key, sealed[2+idSize:clearSize], "mcpgateway request state", KeySize+nonceSize)
	if err != nil {
		panic(err) // only a length out of range, and this one is constant
	}
	block, err := aes.NewCipher(secret[:KeySize])
	if err != nil {
		panic(err) // only a key of a wrong length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only a block of a wrong size
	}
	return aead, secret[KeySize:]
}
