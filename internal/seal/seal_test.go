package seal

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

const purpose = "tests"

func key(b byte) []byte { return bytes.Repeat([]byte{b}, KeySize) }

func TestSealAndOpen(t *testing.T) {
	s := New(purpose)
	for _, content := range []string{"", "état \x00 d'âme", strings.Repeat("x", 1<<20)} {
		text := s.Seal('k', []byte(content))
		kind, got, err := s.Open(text)
		if err != nil || kind != 'k' || string(got) != content {
			t.Errorf("got %q %.100q, %v; want %.100q", kind, got, err, content)
		}
		if KindOf(text) != 'k' {
			t.Errorf("the kind is %q", KindOf(text))
		}
		if len(text) != SizeOf(len(content)) {
			t.Errorf("the text has %d bytes, want %d", len(text), SizeOf(len(content)))
		}
		if text == s.Seal('k', []byte(content)) {
			t.Error("two texts of the same content are alike")
		}
	}
}

func TestRefusedTexts(t *testing.T) {
	s := New(purpose, key(1), key(2))
	text := s.Seal('k', []byte("content"))
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	// The last character of this text has bits that belong to no byte.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	end := len(text) - 1
	respelled := text[:end] + string(alphabet[strings.IndexByte(alphabet, text[end])^1])
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"good":                   {text, nil},
		"of the second key":      {New(purpose, key(2)).Seal('k', nil), nil},
		"empty":                  {"", ErrMalformed},
		"without form":           {"never-was", ErrMalformed},
		"cut in the head":        {text[:20], ErrMalformed},
		"cut before the content": {text[:40], ErrTampered},
		"cut at the end":         {base64.RawURLEncoding.EncodeToString(raw[:len(raw)-1]), ErrTampered},
		"longer":                 {base64.RawURLEncoding.EncodeToString(append(raw[:len(raw):len(raw)], 0)), ErrTampered},
		"a line feed inside":     {text[:9] + "\n" + text[9:], ErrMalformed},
		"a carriage return":      {text + "\r", ErrMalformed},
		"padding":                {text + "=", ErrMalformed},
		"another spelling":       {respelled, ErrMalformed},
		"another key":            {New(purpose, key(3)).Seal('k', nil), ErrUnknownKey},
		"another purpose":        {New("others", key(1)).Seal('k', nil), ErrTampered},
	} {
		t.Run(name, func(t *testing.T) {
			if _, content, err := s.Open(tc.text); err != tc.want {
				t.Errorf("it opens as %q, error %v, want %v", content, err, tc.want)
			}
		})
	}
	for i := range 8 * len(raw) {
		raw[i/8] ^= 1 << (i % 8)
		if kind, content, err := s.Open(base64.RawURLEncoding.EncodeToString(raw)); err == nil {
			t.Fatalf("with bit %d changed it opens as %q %q", i, kind, content)
		}
		raw[i/8] ^= 1 << (i % 8)
	}
}

func TestKeyOfAnotherSize(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New accepted a short key")
		}
	}()
	New(purpose, key(1)[1:])
}

// A text opens only as Seal has spelled it.
func FuzzOpen(f *testing.F) {
	s := New(purpose, key(1))
	f.Add("")
	f.Add(s.Seal('k', []byte("content")))
	f.Add(New("others", key(1)).Seal('k', []byte("content")))
	f.Fuzz(func(t *testing.T, text string) {
		kind, content, err := s.Open(text)
		if err != nil {
			return
		}
		raw, _ := base64.RawURLEncoding.DecodeString(text)
		if text != base64.RawURLEncoding.EncodeToString(raw) || KindOf(text) != kind || len(text) != SizeOf(len(content)) {
			t.Errorf("%q opens as %q %q", text, kind, content)
		}
	})
}

func TestSealFor(t *testing.T) {
	s := New(purpose, key(1), key(2))
	sealed := s.SealFor([]byte("here"), []byte("content"))
	for name, tc := range map[string]struct {
		s       *Sealer
		context string
		want    error
	}{
		"good":            {s, "here", nil},
		"another context": {s, "there", ErrTampered},
		"no context":      {s, "", ErrTampered},
		"a longer one":    {s, "here\x00", ErrTampered},
		"the second key":  {New(purpose, key(3), key(1)), "here", nil},
		"another key":     {New(purpose, key(3)), "here", ErrUnknownKey},
		"another purpose": {New("others", key(1)), "here", ErrTampered},
	} {
		if content, err := tc.s.OpenFor([]byte(tc.context), sealed); err != tc.want || err == nil && string(content) != "content" {
			t.Errorf("%s: it opens as %q, error %v, want %v", name, content, err, tc.want)
		}
	}
	for i := range sealed {
		if _, err := s.OpenFor([]byte("here"), sealed[:i]); err == nil {
			t.Fatalf("it opens with %d bytes", i)
		}
		sealed[i] ^= 1
		if _, err := s.OpenFor([]byte("here"), sealed); err == nil {
			t.Fatalf("it opens with byte %d changed", i)
		}
		sealed[i] ^= 1
	}
	// A text for clients does not open as one for a store, unless there is no context at all.
	text, err := base64.RawURLEncoding.DecodeString(s.Seal('k', []byte("content")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenFor([]byte("here"), text); err != ErrTampered {
		t.Errorf("a text opens with %v", err)
	}
}
