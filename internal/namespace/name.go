package namespace

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MetaNative is the member of an item's _meta with its native name. Items have it if the
// public name does not contain the native one.
const MetaNative = "mcpgateway/native"

const (
	maxName  = 64
	hashMark = "_h"
	hashLen  = 12 // hexadecimal digits
	tailLen  = len(hashMark) + hashLen
)

// Name returns the public name of a tool or prompt, and whether it is the plain one: the
// prefix, the separator and the native name.
func (s *Naming) Name(native string) (public string, plain bool) {
	if wellFormed(native) && len(s.namePrefix)+len(native) <= maxName && !looksHashed(native) {
		return s.namePrefix + native, true
	}
	return s.HashedName(native), false
}

// HashedName returns the public name for a native name whose plain public name is not
// available: cleaned, shortened, and with a hash of the native name at its end.
func (s *Naming) HashedName(native string) string {
	sum := sha256.Sum256([]byte(native))
	var b strings.Builder
	b.Grow(maxName)
	b.WriteString(s.namePrefix)
	bad := false // a run of unusable characters becomes one underscore
	for _, r := range native {
		if b.Len() == maxName-tailLen {
			break
		}
		if ok := r < 0x80 && nameByte(byte(r)); ok {
			b.WriteByte(byte(r))
			bad = false
		} else if !bad {
			b.WriteByte('_')
			bad = true
		}
	}
	b.WriteString(hashMark)
	b.WriteString(hex.EncodeToString(sum[:hashLen/2]))
	return b.String()
}

func wellFormed(name string) bool {
	for i := range len(name) {
		if !nameByte(name[i]) {
			return false
		}
	}
	return name != ""
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// looksHashed reports whether a name ends like a hashed one. Such a native name is never
// published plainly: it could be the hashed name of another item.
func looksHashed(name string) bool {
	if len(name) < tailLen {
		return false
	}
	digits, ok := strings.CutPrefix(name[len(name)-tailLen:], hashMark)
	return ok && strings.Trim(digits, "0123456789abcdef") == ""
}
