package wire

// ID is the id of a JSON-RPC request, kept to the letter: 1, 1.0 and "1" are
// three different ids. The zero ID means "absent". IDs are comparable and may
// be keys of a map.
type ID struct{ text string }

// IDOf returns the id with this JSON text, which must be that of a string or a
// number.
func IDOf(text string) ID { return ID{text} }

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.text == "" }

// String returns the id's JSON text, "" when there is none.
func (id ID) String() string { return id.text }

// Append appends the id's JSON text, null when there is none.
func (id ID) Append(dst []byte) []byte {
	if id.text == "" {
		return append(dst, "null"...)
	}
	return append(dst, id.text...)
}
