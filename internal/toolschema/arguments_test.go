package toolschema

import (
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
