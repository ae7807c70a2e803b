package metatool

import (
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

func TestSignature(t *testing.T) {
	for schema, want := range map[string]string{
		``:                  `()`,
		`{"type":"object"}`: `()`,
		`{"properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["a"]}`:                                                `(a: string, b?: integer)`,
		`{"properties":{"mode":{"enum":["r","w",1]}}}`:                                                                                  `(mode?: "r"|"w"|1)`,
		`{"properties":{"v":{"const":"x"}}}`:                                                                                            `(v?: "x")`,
		`{"properties":{"l":{"type":"array","items":{"type":"string"}}}}`:                                                               `(l?: string[])`,
		`{"properties":{"l":{"type":"array","items":{"enum":["a","b"]}},"m":{"type":"array"}}}`:                                         `(l?: ("a"|"b")[], m?: array)`,
		`{"properties":{"u":{"type":["string","null"]},"v":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"string"}]}}}`:         `(u?: string|null, v?: string|number)`,
		`{"properties":{"o":{"type":"object","properties":{"x":{},"y":{}},"required":["y"]},"any":{}}}`:                                 `(o?: {x?, y}, any?)`,
		`{"properties":{"r":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{"type":"boolean"}}}`:                                               `(r?: boolean)`,
		`{"properties":{"r":{"$ref":"#/$defs/loop"}},"$defs":{"loop":{"$ref":"#/$defs/loop"}}}`:                                         `(r?)`,
		`{"properties":{"r":{"$ref":"https://example.com/schema"}}}`:                                                                    `(r?)`,
		`{"type":"object","properties":{"next":{"$ref":"#"}}}`:                                                                          `(next?: {next?})`,
		`{"properties":{"line\nbreak":{"type":"str\ning"}}}`:                                                                            `(line break?: str ing)`,
		`{"properties":{"b":true,"c":7}}`:                                                                                               `(b?, c?)`,
		`{"properties":{"t":{"enum":["` + strings.Repeat("x", 200) + `"]}}}`:                                                            `(t?: "` + strings.Repeat("x", maxTypeBytes-1) + `…)`,
		`{"properties":{"` + strings.Repeat("n", 200) + `":{}}}`:                                                                        `(` + strings.Repeat("n", maxNamed) + `…?)`,
		`{"properties":{` + strings.TrimSuffix(strings.Repeat(`"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":{"type":"string"},`, 20), ",") + `}}`: `(` + strings.Repeat(`aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa?: string, `, 8) + `…)`,
	} {
		if got := Signature(wire.ValueOf(wire.Raw(schema))); got != want {
			t.Errorf("%.200s:\n got %s\nwant %s", schema, got, want)
		}
	}
}
