package config

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"

	"mcpgateway/internal/configfile"
)

// Retain takes over from the configuration that a gateway runs with what cannot
// change while it runs: every key, of upstreams none, that differs and that live
// does not know by its name, such as "limits.max_depth". It returns the names of
// those keys, in the order of the schema.
func (c *Config) Retain(running *Config, live func(key string) bool) []string {
	return retain(reflect.ValueOf(c).Elem(), reflect.ValueOf(running).Elem(), "", live)
}

func retain(to, from reflect.Value, parent string, live func(string) bool) (retained []string) {
	for _, f := range shapeOf(to.Type()).fields {
		key := configfile.Join(parent, f.name)
		into, was := to.FieldByIndex(f.index), from.FieldByIndex(f.index)
		switch {
		case live(key):
		case f.isStruct():
			retained = append(retained, retain(into, was, key, live)...)
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

// ConnectionHash is a digest of the name of the upstream and its [Connection].
func (u Upstream) ConnectionHash() string {
	h := sha256.New()
	writeString(h, u.Name)
	writeValue(h, reflect.ValueOf(u.Connection))
	return hex.EncodeToString(h.Sum(nil))
}
