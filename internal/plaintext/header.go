package plaintext

// IsToken reports whether s can be the name of a header or a method of HTTP (RFC 9110,
// section 5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenBytes = func() (t [256]bool) {
	for _, b := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[b] = true
	}
	return t
}()

// IsFieldValue reports whether s can be the value of a header: it has no control characters
// but tabs (RFC 9110, section 5.5).
func IsFieldValue(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}
