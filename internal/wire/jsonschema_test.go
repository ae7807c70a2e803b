package wire

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestRef(t *testing.T) {
	root := ValueOf(Raw(`{"type":"object","anchor":1,"$defs":{"a/b":{"type":"string"}}}`))
	for schema, want := range map[string]struct {
		target string
		ok     bool
	}{
		`{"$ref":"#/$defs/a~1b"}`: {`{"type":"string"}`, true},
		`{"$ref":"#"}`:            {string(root.Raw()), true},
		`{"$ref":"#/$defs/none"}`: {"", true},
		`{"$ref":"#anchor"}`:      {"", true},
		`{"$ref":"other#/type"}`:  {"", true},
		`{"$ref":""}`:             {"", true},
		`{"$ref":{}}`:             {"", false},
		`{"type":"string"}`:       {"", false},
		`true`:                    {"", false},
	} {
		if target, ok := ValueOf(Raw(schema)).Ref(root); string(target.Raw()) != want.target || ok != want.ok {
			t.Errorf("%s: %s, %v, want %s, %v", schema, target.Raw(), ok, want.target, want.ok)
		}
	}
}

func TestRequired(t *testing.T) {
	for schema, want := range map[string]string{`{"required":["b","a","b"]}`: "a b", `{"required":"a"}`: "", `{}`: "", `[]`: ""} {
		if got := strings.Join(slices.Sorted(maps.Keys(ValueOf(Raw(schema)).Required())), " "); got != want {
			t.Errorf("%s: %q, want %q", schema, got, want)
		}
	}
}
