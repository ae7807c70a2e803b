package wire

// ID is the id of a JSON-RPC request as it is written: 1, 1.0 and "1" are three different
// ids. The zero ID means that there is no id. IDs are comparable and may be keys of a map.
type ID struct{ text string }

// IDOf returns the id with this JSON text, which must be a string or a number.
func IDOf(text string) ID { return ID{text} }

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.text == "" }

// String returns the id's JSON text, "" for the zero ID.
func (id ID) String() string { return id.text }

// Append appends the id's JSON text, null for the zero ID.
func (id ID) Append(dst []byte) []byte {
	if id.text == "" {
		return append(dst, "null"...)
	}
	return append(dst, id.text...)
}
