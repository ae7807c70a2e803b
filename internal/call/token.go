package call

import "fmt"

// Token is the access token of a principal. It is printed and encoded as [redacted] in
// every way. The zero Token is empty.
type Token struct {
	// A pointer: fmt does not call the methods of values in unexported fields, and would
	// print the text.
	text *string
}

// NewToken returns a Token with this text.
func NewToken(text string) Token { return Token{&text} }

// Reveal returns the text of the token. Send it to token endpoints of the configuration
// only, never to an upstream, and never log it.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Equal reports whether two tokens are equal. It does not run in constant time.
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
