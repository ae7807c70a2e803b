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
		`{"path": "/ä", "limit":20,"all":[ {}, null]}`: `{"all":[{},null],"limit":20,"path":"/ä"}`,
		`{"b":-0,"a":[-7,0]}`:                          `{"a":[-7,0],"b":0}`,
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

// The short way to the canonical form ends where the library ends.
func FuzzDigest(f *testing.F) {
	for _, text := range []string{
		`{"a b":1,"a!":2,"a":3,"":4}`, `{"path":"/a","limit":20}`, `{"b":{"d":1,"c":[true,false,null]},"a":""}`, ` [ 1 , -2 ] `, `{"a":1,"a":2}`, `-0`, `1.50`, `1e2`, `"\u00e9"`, `"é\u2028\u007f</"`,
		`{"é":1,"a":2}`, `{"a":-0}`, `[[[[[1]]]]]`, `{"\u0061":1,"a":2}`, `9007199254740993`, `{"a":"\xff"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if Check(text, Limits{Depth: 100}, Strict) != nil {
			return
		}
		form, ok := appendCanonical([]byte("before"), ValueOf(text), maxPlainDepth)
		if want := canonicalForm(text); ok && string(form) != "before"+string(want) {
			t.Errorf("the canonical form of %s is %s, want %s", text, form, want)
		}
	})
}

// The digest of usual arguments needs no memory.
func TestDigestAllocatesNothing(t *testing.T) {
	args, room := Raw(`{"path":"/data/reports","limit":20,"deep":true}`), make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { AppendDigest(room, args) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDigest(b *testing.B) {
	args, room := Raw(`{"path":"/data/reports","limit":20,"deep":true}`), make([]byte, 0, 256)
	for b.Loop() {
		AppendDigest(room, args)
	}
}
