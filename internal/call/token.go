package call

import "fmt"

// Token is an access token that proved a principal. It prints as [redacted] in
// every way that a value is printed or encoded. The zero Token is none.
type Token struct {
	// A pointer, because fmt cannot call methods of a value that it reaches
	// through an unexported field: what it shows then is an address.
	text *string
}

// NewToken hides a token.
func NewToken(text string) Token { return Token{&text} }

// Reveal returns the token, "" for none. It goes to a token endpoint that the
// configuration names, and nowhere else: never to an upstream, never into a log.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Equal reports whether two tokens are the same. It does not take constant time.
func (t Token) Equal(other Token) bool { return t.Reveal() == other.Reveal() }

// String implements [fmt.Stringer].
func (t Token) String() string { return redacted }

// GoString implements [fmt.GoStringer].
func (t Token) GoString() string { return redacted }

// Format implements [fmt.Formatter], for every verb.
func (t Token) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements [encoding.TextMarshaler].
func (t Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

const redacted = "[redacted]"
