package toolschema

import (
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

func TestRefuseArguments(t *testing.T) {
	s := New(wire.Raw(`{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer","maximum":100}},"required":["path"],"additionalProperties":false}`))
	if got := RejectArguments("files__read", s, wire.Raw(`{"path":"a","lines":1}`)); got != nil {
		t.Errorf("refused: %s", got)
	}
	const want = `{"content":[{"type":"text","text":"The arguments do not match the input schema of files__read, so the tool was not called:\n` +
		`- $ lacks \"path\"\n- $ must not have \"file\"\n- $.lines must be at most 100\nPaths begin at the arguments ($). Correct them and call the tool again."}],"isError":true}`
	if got := string(RejectArguments("files__read", s, wire.Raw(`{"file":"a","lines":1000}`))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A schema that allows other members reports no misspelled one, so a model would only read what is missing.
func TestRejectArgumentsNamesMisspelled(t *testing.T) {
	s := New(wire.Raw(`{"type":"object","properties":{"message":{"type":"string"},"maxLines":{"type":"integer"}},"required":["message"]}`))
	for _, tt := range []struct{ arguments, want string }{
		{`{"mesage":"x"}`, `- $ lacks \"message\"\n- $ has \"mesage\": did you mean \"message\"?\nPaths`},
		{`{"Message":"x","max_lines":1,"other":2}`, `- $ lacks \"message\"\n- $ has \"Message\": did you mean \"message\"?\n- $ has \"max_lines\": did you mean \"maxLines\"?\nPaths`},
		{`{"other":1}`, `- $ lacks \"message\"\nPaths`},
		{`{"message":1,"mesage":"x"}`, `- $.message must be of type string, not number\nPaths`},
		{`["message"]`, `- $ must be of type object, not array\nPaths`},
	} {
		if got := string(RejectArguments("t", s, wire.Raw(tt.arguments))); !strings.Contains(got, "not called:\\n"+strings.ReplaceAll(tt.want, `\\`, `\`)) {
			t.Errorf("%s: %s", tt.arguments, got)
		}
	}
}
