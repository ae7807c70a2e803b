package config

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"

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

// KeptUpstream is an upstream that keeps values of the running configuration, and the variables and files that it lacks.
type KeptUpstream struct {
	Name  string
	Keeps []string        // "connection" for all keys of the connection, and other keys; at least one
	Unset []UnsetVariable // at least one
}

// RetainUnset lets upstreams that lack variables or files keep what they have in the running configuration, since they
// could not be connected to otherwise: the whole connection if one of its keys lacks one, and each
// other key that does. An upstream that lacked some there already, or was not there, keeps nothing.
func (c *Config) RetainUnset(running *Config) (kept []KeptUpstream) {
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		at := slices.IndexFunc(running.Upstreams, func(was Upstream) bool { return was.Name == u.Name })
		if u.Unset == nil || u.Disabled || at < 0 || running.Upstreams[at].Disabled || running.Upstreams[at].Unset != nil {
			continue
		}
		was := &running.Upstreams[at]
		var keeps []string
		for _, f := range shapeOf(reflect.TypeFor[Upstream]()).fields {
			switch {
			case !slices.ContainsFunc(u.Unset, func(v UnsetVariable) bool { return v.Key == f.name }):
			case f.connection:
				u.Connection = was.Connection
				if !slices.Contains(keeps, "connection") {
					keeps = append(keeps, "connection")
				}
			default:
				reflect.ValueOf(u).Elem().FieldByIndex(f.index).Set(reflect.ValueOf(was).Elem().FieldByIndex(f.index))
				keeps = append(keeps, f.name)
			}
		}
		kept = append(kept, KeptUpstream{u.Name, keeps, u.Unset})
		u.Unset = nil
	}
	return kept
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
