package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math"
	"reflect"
	"slices"
)

// Hash is a digest of the whole configuration of the upstream in 64 hexadecimal digits. Two digests are
// equal if and only if names and settings are equal, regardless of order and spelling in the
// file. Secrets are input of the one SHA-256 over everything.
func (u Upstream) Hash() string {
	h := sha256.New()
	writeString(h, u.Name)
	writeValue(h, reflect.ValueOf(u))
	u.writeUnset(h)
	return hex.EncodeToString(h.Sum(nil))
}

// writeUnset writes the variables that are not set: a value that lacks one differs from the value with an empty one. So
// does a file that cannot be used from an empty one.
func (u Upstream) writeUnset(h hash.Hash) {
	for _, v := range u.Unset {
		writeString(h, v.Name)
	}
}

// writeValue writes a value of the schema in a form that no other value shares: fields in the order of
// the schema, and the size before each value without a fixed size.
func writeValue(h hash.Hash, v reflect.Value) {
	if s, ok := v.Interface().(Secret); ok {
		writeString(h, s.Reveal())
		return
	}
	switch v.Kind() {
	case reflect.String:
		writeString(h, v.String())
	case reflect.Bool:
		writeString(h, fmt.Sprint(v.Bool()))
	case reflect.Int, reflect.Int64:
		writeInt(h, v.Int())
	case reflect.Float64:
		writeInt(h, int64(math.Float64bits(v.Float())))
	case reflect.Pointer:
		if v.IsNil() {
			writeInt(h, 0)
			return
		}
		writeInt(h, 1)
		writeValue(h, v.Elem())
	case reflect.Slice:
		writeInt(h, int64(v.Len()))
		for i := range v.Len() {
			writeValue(h, v.Index(i))
		}
	case reflect.Map:
		writeInt(h, int64(v.Len()))
		for _, key := range slices.Sorted(maps.Keys(v.Convert(reflect.TypeFor[map[string]Secret]()).Interface().(map[string]Secret))) {
			writeString(h, key)
			writeValue(h, v.MapIndex(reflect.ValueOf(key)))
		}
	case reflect.Struct:
		switch named := v.Interface().(type) {
		case Override:
			writeString(h, named.Native)
		case Profile:
			writeString(h, named.Name)
			for _, f := range named.ToolFiles {
				writeString(h, f.Source)
			}
		}
		for _, f := range shapeOf(v.Type()).fields {
			writeValue(h, v.FieldByIndex(f.index))
		}
	default:
		panic("config: the schema has a type without a digest: " + v.Type().String())
	}
}

func writeString(h hash.Hash, s string) {
	writeInt(h, int64(len(s)))
	h.Write([]byte(s)) // a hash never fails
}

func writeInt(h hash.Hash, i int64) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(i)))
}
