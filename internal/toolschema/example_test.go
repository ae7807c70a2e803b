package toolschema

import (
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

func TestArguments(t *testing.T) {
	for _, tc := range []struct{ name, schema, want, needs, why string }{
		{"nothing required", `{"type":"object","properties":{"a":{"type":"string","default":"x"}}}`, `{}`, "", ""},
		{"no properties", `{"type":"object"}`, `{}`, "", ""},
		{"default", `{"type":"object","required":["a"],"properties":{"a":{"default":1,"examples":[4]}}}`, `{"a":1}`, "", ""},
		{"const", `{"type":"object","required":["a"],"properties":{"a":{"const":2}}}`, `{"a":2}`, "", ""},
		{"enum", `{"type":"object","required":["a"],"properties":{"a":{"enum":["x","y"]}}}`, `{"a":"x"}`, "", ""},
		{"examples", `{"type":"object","required":["a","b"],"properties":{"a":{"type":"string","examples":["q","r"]},"b":{"type":"boolean","default":false}}}`, `{"a":"q","b":false}`, "", ""},
		{"the first that fits", `{"type":"object","required":["a"],"properties":{"a":{"type":"string","minLength":2,"default":"","examples":["long"]}}}`, `{"a":"long"}`, "", ""},
		{"of the whole", `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}},"examples":[{"a":"whole"}]}`, `{"a":"whole"}`, "", ""},
		{"a whole that does not fit", `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}},"examples":[{"a":1}]}`, "", "a", "no value for a"},
		{"nested", `{"type":"object","required":["a"],"properties":{"a":{"type":"object","required":["b"],"properties":{"b":{"enum":[null]}}}}}`, `{"a":{"b":null}}`, "", ""},
		{"nested without", `{"type":"object","required":["a"],"properties":{"a":{"type":"object","required":["b"],"properties":{"b":{}}}}}`, "", "a", "no value for a"},
		{"reference", `{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/x~1y"}},"$defs":{"x/y":{"enum":["in"]}}}`, `{"a":"in"}`, "", ""},
		{"reference in a circle", `{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/x"}}}`, "", "a", "no value for a"},
		{"reference outwards", `{"type":"object","required":["a"],"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "", "a", "no value for a"},
		{"alternatives", `{"type":"object","required":["a"],"properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer","examples":[3]}]}}}`, `{"a":3}`, "", ""},
		{"a schema that is none", `{"type":"object","required":["a","a"],"properties":{"a":{"default":1}}}`, "", "", "equal elements"},
		{"not described", `{"type":"object","required":["a","b"],"properties":{"a":{"default":1}}}`, "", "b", "no value for b"},
		{"required by an alternative", `{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`, "", "", "do not match it"},
		{"odd names", `{"type":"object","required":["__proto__","a b"],"properties":{"__proto__":{"default":1},"a b":{"default":2}}}`, `{"__proto__":1,"a b":2}`, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			compiled := New(wire.Raw(tc.schema))
			if strings.Contains(tc.schema, "file:") {
				compiled = nil // references are not followed, so the schema is invalid
			}
			got, needs, err := ExampleArguments(wire.ValueOf(wire.Raw(tc.schema)), compiled)
			if tc.why != "" && compiled == nil {
				tc.why = "cannot be checked"
			}
			if string(got) != tc.want || strings.Join(needs, " ") != tc.needs || (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) {
				t.Errorf("%s, needs %q, %v; want %s, needs %q, %q", got, needs, err, tc.want, tc.needs, tc.why)
			}
			if got != nil && compiled.Validate(got) != nil {
				t.Errorf("%s does not fit", got)
			}
		})
	}
}

// TestArgumentsAreBounded checks that the search in a schema that branches at every step
// ends.
func TestArgumentsAreBounded(t *testing.T) {
	branch := `{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"}`
	schema := wire.Raw(`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[` + branch + `],"default":1,"not":{}}}}`)
	x := examples{root: wire.ValueOf(schema), left: maxExampleSteps}
	if n := len(x.of(wire.ValueOf(schema).Get("properties", "a"), 0)); n > maxExampleSteps {
		t.Errorf("%d values", n)
	}
	if got, _, err := ExampleArguments(wire.ValueOf(schema), New(schema)); err == nil {
		t.Errorf("%s fits what fits nothing", got)
	}
}
