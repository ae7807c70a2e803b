package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Reasons why a text does not open. Clients do not learn the reason.
var (
	ErrMalformed  = errors.New("the sealed text is malformed")
	ErrUnknownKey = errors.New("the text is sealed with a key that this replica does not have")
	ErrTampered   = errors.New("the sealed text was changed")
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// Sealer seals texts for one purpose, and opens them again.
//
//	format ‖ kind ‖ key id (4) ‖ salt (24) ‖ AES-256-GCM(content)
//
// in Base64 for URLs. Key and nonce of each text are derived from the sealing key, the purpose and
// a random salt, so that a key may be used for any number of texts. The bytes before the content
// are authenticated too.
type Sealer struct {
	purpose string
	keys    []sealingKey // the first seals, all open
}

type sealingKey struct {
	id  [idSize]byte
	key []byte
}

const (
	format    = 2
	idSize    = 4
	saltSize  = 24
	headSize  = 2 + idSize + saltSize
	nonceSize = 12
	tagSize   = 16

	// overhead is how many bytes a text has more than its content, before Base64.
	overhead = headSize + tagSize
)

// New returns a Sealer that seals with the first key and opens with any. Without keys it makes a random
// one. It panics if a key does not have KeySize bytes. A text that is sealed for one purpose does not
// open for another.
func New(purpose string, keys ...[]byte) *Sealer {
	if len(keys) == 0 {
		key := make([]byte, KeySize)
		rand.Read(key) // never fails
		keys = [][]byte{key}
	}
	s := &Sealer{purpose: purpose}
	for _, k := range keys {
		if len(k) != KeySize {
			panic(fmt.Sprintf("seal: a key has %d bytes, not %d", len(k), KeySize))
		}
		s.keys = append(s.keys, sealingKey{keyID(k), k})
	}
	return s
}

// Seal returns the text of a content. The kind can be read by everybody and changed by nobody.
func (s *Sealer) Seal(kind byte, content []byte) string {
	return base64.RawURLEncoding.EncodeToString(s.seal(kind, content, nil))
}

// SealFor returns the sealed bytes of a content, without Base64. They open only with the same context,
// which says where they belong and is not part of them.
func (s *Sealer) SealFor(context, content []byte) []byte { return s.seal(0, content, context) }

// OpenFor returns what SealFor has sealed with this context. The error is one of those above.
func (s *Sealer) OpenFor(context, sealed []byte) ([]byte, error) {
	_, content, err := s.open(sealed, context)
	return content, err
}

// seal returns the bytes of a sealed content. The context is authenticated after the head, whose length
// is constant.
func (s *Sealer) seal(kind byte, content, context []byte) []byte {
	out := make([]byte, headSize, overhead+len(content))
	out[0], out[1] = format, kind
	copy(out[2:], s.keys[0].id[:])
	rand.Read(out[2+idSize:])
	aead, nonce := s.derive(s.keys[0].key, out)
	return aead.Seal(out, nonce, content, authenticated(out, context))
}

// authenticated returns the bytes that are authenticated and not sealed.
func authenticated(sealed, context []byte) []byte {
	head := sealed[:headSize:headSize]
	return append(head, context...)
}

// Open returns what was sealed. The error is one of those above. Its cost is linear in the length
// of the text, which callers bound.
func (s *Sealer) Open(text string) (kind byte, content []byte, err error) {
	if strings.ContainsAny(text, "\r\n") { // the decoder ignores them
		return 0, nil, ErrMalformed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return 0, nil, ErrMalformed
	}
	return s.open(raw, nil)
}

// open returns what seal has sealed with this context.
func (s *Sealer) open(raw, context []byte) (kind byte, content []byte, err error) {
	if len(raw) < headSize || raw[0] != format {
		return 0, nil, ErrMalformed
	}
	for _, k := range s.keys {
		if !bytes.Equal(k.id[:], raw[2:2+idSize]) {
			continue
		}
		aead, nonce := s.derive(k.key, raw)
		content, err = aead.Open(nil, nonce, raw[headSize:], authenticated(raw, context))
		if err != nil {
			return 0, nil, ErrTampered
		}
		return raw[1], content, nil
	}
	return 0, nil, ErrUnknownKey
}

// KindOf returns the kind that a text claims to have, 0 if it does not have the form of a sealed
// text. Only Open says whether the claim is true.
func KindOf(text string) byte {
	head, err := base64.RawURLEncoding.DecodeString(text[:min(len(text), 4)])
	if err != nil || len(head) < 2 || head[0] != format {
		return 0
	}
	return head[1]
}

// SizeOf returns the length of the text of a content with n bytes.
func SizeOf(n int) int { return base64.RawURLEncoding.EncodedLen(overhead + n) }

// keyID names a key without telling anything of it.
func keyID(key []byte) [idSize]byte {
	sum := sha256.Sum256(append([]byte("mcpgateway request state key\x00"), key...))
	return [idSize]byte(sum[:])
}

// derive returns the cipher and the nonce that belong to the salt in a text.
func (s *Sealer) derive(key, text []byte) (cipher.AEAD, []byte) {
	secret, err := hkdf.Key(sha256.New, key, text[2+idSize:headSize], s.purpose, KeySize+nonceSize)
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
