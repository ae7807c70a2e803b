package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendDigest appends the digest of a JSON value for people: "sha256:" and the hex digits of
// the SHA-256 of the value in its canonical form (RFC 8785), so that neither the order of
// members nor the spelling of a value matters and others can compute it too. Integers keep
// all digits, where the RFC rounds those over 2^53. A value without a canonical form, because
// of duplicate keys or lone surrogates, is hashed as it is written. The value is not changed.
//
// The digest shows that a value has not changed. It rounds numbers that are not integers, as
// the RFC does, so do not use it if two values must not be confused: bridge has another
// digest for that.
func AppendDigest(b []byte, value Raw) []byte {
	at := len(b) // the canonical form is behind b for a moment
	if len(value) <= maxPlainSize {
		if form, ok := appendCanonical(b, ValueOf(value), maxPlainDepth); ok {
			return appendSum(form[:at], form[at:])
		}
	}
	return appendSum(b, canonicalForm(value))
}

// canonicalForm returns the canonical form of any value, and the value itself if it has none.
func canonicalForm(value Raw) []byte {
	form := jsontext.Value(slices.Clone(value))
	if form.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
		return value
	}
	return form
}

// appendSum appends the hash of a form, which may be behind b.
func appendSum(b, form []byte) []byte {
	sum := sha256.Sum256(form)
	return hex.AppendEncode(append(b, "sha256:"...), sum[:])
}
