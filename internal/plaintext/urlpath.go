package plaintext

import "strings"

// URLPath returns the escaped path of a URL without needless escapes: letters, digits and -._~ stand for themselves (RFC 3986,
// section 6.2.2.2). So a secret in it is recognized, and the escapes that mean something stay.
func URLPath(escaped string) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(escaped, '%')
		if i < 0 || len(escaped) < i+3 {
			break
		}
		out.WriteString(escaped[:i])
		if b := unhex(escaped[i+1])<<4 | unhex(escaped[i+2]); isUnreserved(b) {
			out.WriteByte(b)
		} else {
			out.WriteString(escaped[i : i+3])
		}
		escaped = escaped[i+3:]
	}
	out.WriteString(escaped)
	return out.String()
}

// unhex returns the value of a hexadecimal digit. Escaped paths have no other characters there.
func unhex(digit byte) byte {
	if digit <= '9' {
		return digit - '0'
	}
	return digit&^0x20 - 'A' + 10
}

func isUnreserved(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || strings.IndexByte("-._~", b) >= 0
}
