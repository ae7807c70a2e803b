package jsontext

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// A person must see each character that the value has, and send the same value back.
func TestEditable(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":[1,"é"]}`, "{\n  \"a\": [\n    1,\n    \"é\"\n  ]\n}"},
		{`"x` + "\u202e" + `y"`, `"x\u202ey"`},
		{`"` + "\u2028\u2029\ufeff" + `"`, `"\u2028\u2029\ufeff"`},
		{`"` + "\U000e0041" + `"`, `"\udb40\udc41"`},
		{`"` + "\u007f" + `"`, `"\u007f"`},
	} {
		got := Editable(wire.Raw(c.in))
		if got != c.want {
			t.Errorf("Editable(%+q) = %+q, want %+q", c.in, got, c.want)
		}
		var before, after any
		if json.Unmarshal([]byte(c.in), &before) != nil || json.Unmarshal([]byte(got), &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("Editable(%+q) = %+q is another value", c.in, got)
		}
	}
}

func TestIndentedIsBounded(t *testing.T) {
	long := wire.Raw(`"` + strings.Repeat("x", MaxShown) + `"`)
	if text, cut := Indented(long); !cut || len(text) != MaxShown {
		t.Errorf("%d bytes shown of %d, cut %t", len(text), len(long), cut)
	}
	if text, cut := Indented(wire.Raw(`{"a":`)); cut || text != `{"a":` {
		t.Errorf("text that is no JSON is shown as %q, cut %t", text, cut)
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a": 1}`, "{\n\"a\":1 }", true},
		{`{"a":1}`, `{"a":1.0}`, false},
		{`"a b"`, `"ab"`, false},
		{`{"a":`, `{"a": `, false},
		{`{"a":`, `{"a":`, true},
	} {
		if got := Same(wire.Raw(c.a), wire.Raw(c.b)); got != c.want {
			t.Errorf("Same(%s, %s) = %t", c.a, c.b, got)
		}
	}
}

func TestNumber(t *testing.T) {
	for in, want := range map[string]string{
		`1.5e3`: "1.5e3", `"1"`: "", `null`: "", `1` + strings.Repeat("0", 40): "",
	} {
		if got := Number(wire.ValueOf(wire.Raw(in))); got != want {
			t.Errorf("Number(%s) = %q, want %q", in, got, want)
		}
	}
}
