package consent

import (
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestQuestionIsVisibleAndBounded(t *testing.T) {
	question := func(t *testing.T, kind call.Kind, public, params string) string {
		t.Helper()
		q, ok := Question("files", kind, public, wire.Raw(params))
		if !ok {
			t.Fatalf("%.100s cannot be asked about", params)
		}
		return wire.ValueOf(q).Get("message").Str()
	}
	text := question(t, call.Resource, "files+file:///\u202egpj.exe\u200b\x07", "")
	if want := `files: may the resource files+file:///\u202egpj.exe\u200b\u0007 be read?`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	// A value that fits is not cut.
	if text = question(t, call.Tool, "t", `{"arguments":{"sql":"`+strings.Repeat("y", 2000)+`; DROP TABLE x"}}`); !strings.HasSuffix(text, `; DROP TABLE x"}`) {
		t.Errorf("a short value is cut: %s", text)
	}
	long := func(members string) string {
		return `{"arguments":{"pad":` + string(wire.String(strings.Repeat("x\u2066", 5000))) + members + `,"more":[` + strings.Repeat(`"yyyyyyyyyy",`, 5000) + `1],"danger":"rm -rf"}}`
	}
	text = question(t, call.Tool, "t", long(`,"deep":[{"hidden":{"also":1}}]`))
	for _, want := range []string{`"danger": "rm -rf"`, `"deep": [{"hidden": {"also": 1}}]`, "bytes more)", "(20000 bytes, sha256 ", "elements more, sha256 of all "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if len(text) > maxQuestion {
		t.Errorf("%d bytes", len(text))
	}
	if other := question(t, call.Tool, "t", strings.Replace(long(`,"deep":[{"hidden":{"also":1}}]`), `"yyyyyyyyyy",1]`, `"yyyyyyyyyz",1]`, 1)); other == text {
		t.Error("two calls with other arguments have the same question")
	}
	for _, r := range text {
		if r == '\u2066' {
			t.Fatal("a direction mark is not escaped")
		}
	}
}

// A question that would hide something is not asked.
func TestQuestionHidesNothing(t *testing.T) {
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, `"key%d":1,`, i)
	}
	for name, members := range map[string]string{
		"many keys":    many.String(),
		"many levels":  `"a":` + strings.Repeat("[", maxLevels) + strings.Repeat("]", maxLevels) + `,`,
		"a long key":   `"` + strings.Repeat("k", maxQuestion) + `":1,`,
		"many objects": `"a":[` + strings.Repeat(`{"b":1},`, 3000) + `1],`,
	} {
		if q, ok := Question("files", call.Tool, "t", wire.Raw(`{"arguments":{`+members+`"danger":true}}`)); ok {
			t.Errorf("%s: asked %.100s", name, q)
		}
	}
}
