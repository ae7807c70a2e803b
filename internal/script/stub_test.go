package script

import (
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

func TestStub(t *testing.T) {
	for _, tt := range []struct{ name, definition, want string }{
		{"required first", `{"name":"files__read","description":"Reads a file.\nAnd more.","inputSchema":{"type":"object","properties":{"lines":{"type":"integer","default":100},"path":{"type":"string","description":"The path,\n below the root."}},"required":["path"]},"outputSchema":{"type":"object","properties":{"text":{"type":"string"},"size":{"type":"number"}},"required":["text"]}}`,
			"files__read(path: str, lines: int = 100) -> {\"text\": str, \"size\"?: float}\n    Reads a file.\n    And more.\n    path: The path, below the root."},
		{"types", `{"name":"t","inputSchema":{"type":"object","required":["a","b","c","d","e","f","g"],"properties":{"a":{"enum":["x",1,null]},"b":{"type":["string","null"]},"c":{"type":"array","items":{"$ref":"#/$defs/U"}},"d":{"anyOf":[{"type":"boolean"},{"const":true}]},"e":{"type":"object","additionalProperties":{"type":"integer"}},"f":{},"g":{"type":"array"}},"$defs":{"U":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}}}`,
			`t(a: "x" | 1 | None, b: str | None, c: list[{"id": int}], d: bool | True, e: dict[str, int], f: any, g: list)`},
		{"a reference to itself", `{"name":"t","inputSchema":{"type":"object","required":["n"],"properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}}}}}}`,
			`t(n: {"n"?: {"n"?: {"n"?: any}}})`},
		{"an unknown reference", `{"name":"t","inputSchema":{"type":"object","required":["n"],"properties":{"n":{"$ref":"http://x/y"}}}}`, "t(n: any)"},
		{"nothing", `{"name":"t"}`, "t()"},
		{"no schema at all", `{"name":"t","inputSchema":{"properties":5,"required":"x"}}`, "t()"},
	} {
		if got := Stub(wire.Raw(tt.definition)); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// A stub of a hostile definition is short, and takes little time.
func TestStubIsBounded(t *testing.T) {
	wide := `{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/A"},`, 30) + `{"$ref":"#/$defs/A"}]}`
	schema := `{"type":"object","properties":{"a":` + wide + `,"` + strings.Repeat("n", 10000) + `":{"enum":["` + strings.Repeat("x", 10000) + `"]}},"$defs":{"A":` + wide + `}}`
	got := Stub(wire.Raw(`{"name":"t","description":"` + strings.Repeat("d", 100_000) + `","inputSchema":` + schema + `}`))
	if len(got) > 5000 {
		t.Errorf("the stub has %d bytes", len(got))
	}
	many := `{"name":"t","inputSchema":{"type":"object","properties":{` + strings.Repeat(`"p":{"type":"string"},`, 10_000) + `"q":{}}}}`
	if got := Stub(wire.Raw(many)); len(got) > 20_000 {
		t.Errorf("the stub of many parameters has %d bytes", len(got))
	}
}
