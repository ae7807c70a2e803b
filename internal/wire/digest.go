package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendDigest appends the digest of a JSON value as people read it: sha256: and the
// hex digits of the SHA-256 of the value in the form of RFC 8785, so that
// neither the order of members nor the spelling of a value matters, and others can
// compute it too. Integers keep all their digits, where the RFC would round those
// over 2^53. What has no such form, for its duplicate keys or lone surrogates, is
// taken as it is written. The value is not changed.
//
// It is for showing that something is the same as before. Other numbers than
// integers are rounded, as the RFC has it, so that it is not for what two readers
// must not take for the same: bridge has a digest of its own for that.
func AppendDigest(b []byte, value Raw) []byte {
	canonical := jsontext.Value(slices.Clone(value))
	if canonical.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
		canonical = jsontext.Value(value)
	}
	sum := sha256.Sum256(canonical)
	return hex.AppendEncode(append(b, "sha256:"...), sum[:])
}
