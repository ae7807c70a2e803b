package wire

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

func digest(value Raw) string { return string(AppendDigest([]byte("digest "), value)) }

func TestDigest(t *testing.T) {
	// Others compute it too: printf %s '{"a":1,"b":[true,"é"]}' | sha256sum
	for text, form := range map[string]string{
		` { "b" : [true,"\u00e9"], "a" : 1.0e0 } `: `{"a":1,"b":[true,"é"]}`,
		`9007199254740993`:                         `9007199254740993`,
		`{"a":1,"a":2}`:                            `{"a":1,"a":2}`,
		`"\ud83d"`:                                 `"\ud83d"`,
	} {
		given := Raw(text)
		if got, want := digest(given), fmt.Sprintf("digest sha256:%x", sha256.Sum256([]byte(form))); got != want {
			t.Errorf("the digest of %s is %s, not that of %s", text, got, form)
		}
		if string(given) != text {
			t.Errorf("%s became %s", text, given)
		}
	}
	if digest(Raw(`{"a":9007199254740993}`)) == digest(Raw(`{"a":9007199254740992}`)) {
		t.Error("two integers have one digest")
	}
}
