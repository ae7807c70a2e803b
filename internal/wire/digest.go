package wire

import (
	"crypto/sha256"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Digest returns the SHA-256 of a JSON value in the form of RFC 8785, so that
// neither the order of members nor the spelling of a value matters, and others can
// compute it too. Integers keep all their digits, where the RFC would round those
// over 2^53. What has no such form, for its duplicate keys or lone surrogates, is
// taken as it is written. The value is not changed.
func Digest(value Raw) [sha256.Size]byte {
	canonical := jsontext.Value(slices.Clone(value))
	if canonical.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
		return sha256.Sum256(value)
	}
	return sha256.Sum256(canonical)
}
