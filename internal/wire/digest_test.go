package wire

import (
	"crypto/sha256"
	"testing"
)

func TestDigest(t *testing.T) {
	// Others compute it too: printf %s '{"a":1,"b":[true,"é"]}' | sha256sum
	for text, form := range map[string]string{
		` { "b" : [true,"\u00e9"], "a" : 1.0e0 } `: `{"a":1,"b":[true,"é"]}`,
		`9007199254740993`:                         `9007199254740993`,
		`{"a":1,"a":2}`:                            `{"a":1,"a":2}`,
		`"\ud83d"`:                                 `"\ud83d"`,
	} {
		given := Raw(text)
		if got := Digest(given); got != sha256.Sum256([]byte(form)) {
			t.Errorf("the digest of %s is not that of %s", text, form)
		}
		if string(given) != text {
			t.Errorf("%s became %s", text, given)
		}
	}
	if Digest(Raw(`{"a":9007199254740993}`)) == Digest(Raw(`{"a":9007199254740992}`)) {
		t.Error("two integers have one digest")
	}
}
