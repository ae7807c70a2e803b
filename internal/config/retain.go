package config

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"

	"mcpgateway/internal/configfile"
)

// Retain copies from the running configuration every key that differs and that a reload cannot
// apply, except upstreams. It returns the names of those keys, such as "limits.max_depth", in the
// order of the schema. A policy.default that follows auth.mode follows the retained mode.
func (c *Config) Retain(running *Config) []string {
	retained := retain(reflect.ValueOf(c).Elem(), reflect.ValueOf(running).Elem(), "")
	c.Policy.deriveDefault(&c.Auth)
	return retained
}

func retain(to, from reflect.Value, parent string) (retained []string) {
	for _, f := range shapeOf(to.Type()).fields {
		key := configfile.Join(parent, f.name)
		into, was := to.FieldByIndex(f.index), from.FieldByIndex(f.index)
		switch {
		case f.reload:
		case f.isStruct():
			retained = append(retained, retain(into, was, key)...)
		case digestOf(into) != digestOf(was):
			into.Set(was)
			retained = append(retained, key)
		}
	}
	return retained
}

func digestOf(v reflect.Value) (sum [sha256.Size]byte) {
	h := sha256.New()
	writeValue(h, v)
	h.Sum(sum[:0])
	return sum
}

// ConnectionHash is a digest of the name of the upstream, its [Connection], and the variables that are not set.
func (u Upstream) ConnectionHash() string {
	h := sha256.New()
	writeString(h, u.Name)
	writeValue(h, reflect.ValueOf(u.Connection))
	u.writeUnset(h)
	return hex.EncodeToString(h.Sum(nil))
}
