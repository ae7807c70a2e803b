package toolschema

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"mcpgateway/internal/wire"
)

func TestSchema(t *testing.T) {
	const person = `{"type":"object","properties":{"name":{"type":"string","minLength":1},"age":{"type":"integer","minimum":0},"sex":{"enum":["f","m"]}},` +
		`"required":["name"],"additionalProperties":false}`
	tests := []struct{ name, schema, value, want string }{
		{"fits", person, `{"name":"a","age":1e0,"sex":"f"}`, ""},
		{"several places", person, `{"name":"","age":-1,"sex":"x","more":1}`,
			`$: must not have "more"; $.age: must be at least 0; $.name: must have at least 1 characters, not 0; $.sex: must be one of "f", "m"`},
		{"missing", person, `{}`, `$: lacks "name"`},
		{"another type", person, `{"name":7}`, `$.name: must be of type string, not number`},
		{"no object", person, `[]`, `$: must be of type object, not array`},
		{"large integers", `{"const":9007199254740993}`, `9007199254740992`, `$: must be 9007199254740993`},
		{"a constant and an enumeration", `{"enum":["a",{"b":[1]},null]}`, `{"b":[1.0]}`, ""},
		{"not in it", `{"enum":["a",{"b":[1]},null]}`, `{"b":[2]}`, `$: must be one of "a", an object, null`},
		{"unique", `{"uniqueItems":true}`, `[1,{"a":1},1.0]`, `$: must not have equal elements: 0 and 2 are equal`},
		{"elements", `{"items":{"type":"string"}}`, `["a",1]`, `$[1]: must be of type string, not number`},
		{"odd names", `{"properties":{"a b":{"type":"null"}}}`, `{"a b":1}`, `$["a b"]: must be of type null, not number`},
		{"alternatives of a value", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":1}`,
			`$.a: must match one of the alternatives: must be of type string, not number, or must be of type null, not number`},
		{"the alternative that was meant", `{"oneOf":[{"type":"string"},{"type":"object","properties":{"n":{"type":"integer"}}}]}`, `{"n":"x"}`,
			`$.n: must be of type integer, not string`},
		{"several alternatives", `{"oneOf":[{"type":"string"},{"maxLength":3}]}`, `"a"`, `$: must match exactly one of the alternatives, but matches several`},
		{"what must not be", `{"properties":{"a":false}}`, `{"a":1}`, `$.a: must be absent`},
		{"a pattern", `{"pattern":"^[a-z]+$"}`, `"A"`, `$: must match the pattern ^[a-z]+$`},
		{"a pattern that is not linear", `{"pattern":"^(?=a)b"}`, `"x"`, ""},
		{"a member twice: the last counts", person, `{"name":7,"name":"a"}`, ""},

		{"2020-12 where nothing is said", `{"prefixItems":[{"type":"string"}],"items":false}`, `["a",1]`, `$[1]: must be absent`},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `["a",1]`,
			`$: must not have the last 1 elements`},
		{"draft 7, definitions", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/s"}}}`, `{"a":1}`,
			`$.a: must be of type string, not number`},
		{"draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`, `1`, `$: must be more than 1`},
		{"2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}},"required":["b"]}`, `{"b":1,"a":{}}`,
			`$.a: lacks "b"`},
		{"references within", `{"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["v"]}},"$ref":"#/$defs/n"}`, `{"v":1,"n":{"v":1,"n":{}}}`,
			`$.n.n: lacks "v"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New(wire.Raw(tt.schema))
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := s.Validate(wire.Raw(tt.value)); err != nil {
				got = err.Error()
				if IsUnchecked(err) {
					t.Errorf("unchecked: %v", err)
				}
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestSchemaFaults checks the errors of invalid schemas, and that no document is loaded.
func TestSchemaFaults(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"no schema", `{"type":"objekt"}`, `$.type: must match one of the alternatives`},
		{"a required property as of draft 3", `{"properties":{"a":{"required":true}}}`, `$.properties.a.required: must be of type array, not boolean`},
		{"a file", `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `no reference is followed`},
		{"a page", `{"$ref":"http://127.0.0.1:1/schema"}`, `no reference is followed`},
		{"a relative one", `{"$ref":"other.json"}`, `no reference is followed`},
		{"another dialect", `{"$schema":"https://example.com/schema"}`, `no reference is followed`},
		{"a place that is not there", `{"$ref":"#/$defs/none"}`, `not found`},
	}
	for _, tt := range tests {
		s := New(wire.Raw(tt.schema))
		err := s.Err()
		if err == nil || IsUnchecked(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err := s.Validate(wire.Raw(`{}`)); !IsUnchecked(err) {
			t.Errorf("%s: a value was checked: %v", tt.name, err)
		}
	}
}

// TestSchemaBounds checks that costly schemas and values are not checked, and that
// validations end.
func TestSchemaBounds(t *testing.T) {
	repeat := func(n int, form string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, strings.ReplaceAll(form, "NEXT", fmt.Sprint(i+1)), i)
		}
		return b.String()
	}
	ladder := func(rung string) string {
		return `{"$defs":{` + repeat(40, `"d%d":`+rung) + `,"d40":{"type":"string"}},"$ref":"#/$defs/d0"}`
	}
	tests := []struct{ name, schema, value string }{
		{"allOf doubles", ladder(`{"allOf":[{"$ref":"#/$defs/dNEXT"},{"$ref":"#/$defs/dNEXT"}]}`), `{}`},
		{"anyOf doubles", ladder(`{"anyOf":[{"$ref":"#/$defs/dNEXT"},{"$ref":"#/$defs/dNEXT"}]}`), `{}`},
		{"not doubles", ladder(`{"not":{"allOf":[{"not":{"$ref":"#/$defs/dNEXT"}},{"not":{"$ref":"#/$defs/dNEXT"}}]}}`), `{}`},
		{"the value doubles", `{"$defs":{"n":{"properties":{"a":{"$ref":"#/$defs/n"}},"allOf":[{"properties":{"a":{"$ref":"#/$defs/n"}}}]}},"$ref":"#/$defs/n"}`,
			strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100)},
		{"a circle", `{"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, `{}`},
		{"a large enumeration of many", `{"items":{"enum":[` + repeat(10_000, `"v%d"`) + `]}}`, `[` + repeat(10_000, `"w%d"`) + `]`},
		{"large equal elements, over and over", `{"$defs":{"u":{"uniqueItems":true}},"allOf":[` + repeat(500, `{"title":"%d","$ref":"#/$defs/u"}`) + `]}`, `[` + repeat(5_000, `{"a":%d}`) + `]`},
		{"patterns of many words", `{"items":{"pattern":"` + strings.Repeat(`(x|y){500}`, 4) + `"}}`, `[` + repeat(20_000, `"xyxyxyxyxyxy%d"`) + `]`},
		{"patterns of names", `{"patternProperties":{` + repeat(100, `"a%d(b|c){50}":{}`) + `}}`, `{` + repeat(20_000, `"k%d":1`) + `}`},
		{"many elements", `{"items":{"type":"integer"}}`, `[` + repeat(200_000, `%d`) + `]`},
		{"a large value", `{"type":"string"}`, `"` + strings.Repeat("x", 1<<20) + `"`},
		{"a long exponent", `{"minimum":1}`, `1e999999999`},
		{"a long number", `{"minimum":1}`, `1` + strings.Repeat(`0`, 1000)},
		{"a deep value", `{}`, strings.Repeat(`[`, 900) + strings.Repeat(`]`, 900)},
		{"a deep schema", strings.Repeat(`{"not":`, 100) + `{}` + strings.Repeat(`}`, 100), `1`},
		{"a wide schema", `{"allOf":[` + repeat(3000, `{"title":"%d"}`) + `]}`, `1`},
		{"a large schema", `{"description":"` + strings.Repeat("x", 300<<10) + `"}`, `1`},
		{"a long number in a schema", `{"minimum":1e999999999}`, `1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := New(wire.Raw(tt.schema)).Validate(wire.Raw(tt.value)); !IsUnchecked(err) {
				t.Errorf("checked: %v", err)
			}
		})
	}
}

// TestSchemaAtOnce checks that a schema can be used concurrently, and is compiled at most
// once for each processor.
func TestSchemaAtOnce(t *testing.T) {
	s := New(wire.Raw(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range 200 {
				if err := s.Validate(fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
					t.Error(err)
				}
				if err := s.Validate(wire.Raw(`{}`)); err == nil || err.Error() != `$: lacks "n"` {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if made, most := len(s.free), cap(s.free); made == 0 || made > most || len(s.seats) != most-made {
		t.Errorf("%d programs, %d seats left of %d", made, len(s.seats), most)
	}
}
