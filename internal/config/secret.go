package config

import "fmt"

const redacted = "[redacted]"

// Secret is a value that must not be shown: it is printed and encoded as [redacted]. The zero Secret is
// empty.
type Secret struct {
	// A pointer, because fmt calls no methods of a value in an unexported field; it then prints an
	// address.
	value *string
}

// NewSecret returns a value as a Secret.
func NewSecret(value string) Secret { return Secret{&value} }

// Reveal returns the value, which must not be logged.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the value is empty.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// Equal compares values, not in constant time.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String implements [fmt.Stringer].
func (s Secret) String() string { return redacted }

// GoString implements [fmt.GoStringer].
func (s Secret) GoString() string { return redacted }

// Format implements [fmt.Formatter], for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements [encoding.TextMarshaler].
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON implements [encoding/json.Marshaler].
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalYAML implements [gopkg.in/yaml.v3.Marshaler].
func (s Secret) MarshalYAML() (any, error) { return redacted, nil }
