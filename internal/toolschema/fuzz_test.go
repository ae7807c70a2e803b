package toolschema

import (
	"testing"

	"mcpgateway/internal/wire"
)

// Any schema and value are judged without a panic, twice in the same way.
func FuzzSchema(f *testing.F) {
	for _, tt := range [][2]string{
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}`, `{"a":"aaaa!"}`},
		{`{"$defs":{"n":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"$ref":"#/$defs/n"}`, `null`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"const":1}],"additionalItems":false}`, `[1,2]`},
		{`{"enum":[1e400,"x"],"multipleOf":0.01,"uniqueItems":true}`, `1e999`},
		{`{"$ref":"http://example.com/x"}`, `{}`},
		{`true`, `0`},
	} {
		f.Add([]byte(tt[0]), []byte(tt[1]))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		for _, text := range [][]byte{schema, value} {
			if wire.Check(text, wire.Limits{Depth: 200}, wire.Lenient) != nil {
				return
			}
		}
		s := New(schema)
		first, second := s.Validate(value), s.Validate(value)
		if (first == nil) != (second == nil) || first != nil && first.Error() != second.Error() {
			t.Errorf("%s against %s: %v, then %v", value, schema, first, second)
		}
	})
}
