package canonical

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"mcpgateway/internal/plaintext"
)

// MaxBytes bounds a canonical URI.
const MaxBytes = 8 << 10

// Violation returns why a URI is not canonical, as a clause about "it", and "" if it is.
func Violation(uri string) string {
	if len(uri) > MaxBytes {
		return "it has more than 8192 bytes"
	}
	scheme, rest, found := strings.Cut(uri, ":")
	if !found || !isScheme(scheme) {
		return "it does not begin with a scheme in lower case"
	}
	c := checker{scheme: scheme[strings.LastIndexByte(scheme, '+')+1:]}
	if c.scheme == "url" {
		return "its scheme, url, wraps another URI"
	}
	rest, query, hasQuery := cutQuery(rest)
	path := rest
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexByte(after, '/')
		if end < 0 {
			end = len(after)
		}
		if why := c.authority(after[:end]); why != "" {
			return why
		}
		if path = after[end:]; path == "" && hasQuery {
			return "it has a query right behind its host"
		}
	} else if c.scheme == "file" || defaultPorts[c.scheme] != "" {
		return "it lacks the two slashes after its scheme"
	}
	if c.scheme == "file" && path == "" {
		return "it has no path"
	}
	if why := c.path(path); why != "" {
		return why
	}
	if c.scheme == "file" && hasQuery {
		return "it is a file and has a query"
	}
	if why := c.characters(query, "/?"); why != "" {
		return why
	}
	if !c.encoded {
		return ""
	}
	return decodedViolation(path, query)
}

// checker is the state of the check of a URI.
type checker struct {
	scheme  string // without a prefix
	encoded bool   // there are percent-encoded bytes outside ASCII
}

// defaultPorts are the schemes of which a URI always has a host.
var defaultPorts = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443", "ftp": "21"}

func isScheme(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return s != ""
}

// cutQuery cuts a URI before its query. A fragment stays where it is.
func cutQuery(s string) (before, query string, found bool) { return strings.Cut(s, "?") }

func (c *checker) authority(s string) string {
	if strings.Contains(s, "@") {
		return "it names a user"
	}
	host, port, hasPort := s, "", false
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.Contains(s[i:], "]") {
		host, port, hasPort = s[:i], s[i+1:], true
	}
	switch {
	case c.scheme == "file" && s != "":
		return "it is a file and has a host"
	case host == "" && (hasPort || defaultPorts[c.scheme] != ""):
		return "it has no host"
	case hasPort && (port == "" || strings.Trim(port, "0123456789") != "" || port[0] == '0'):
		return "its port is not a plain number"
	case hasPort && port == defaultPorts[c.scheme]:
		return "it names the default port of its scheme"
	case strings.HasPrefix(host, "["):
		if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil || !ip.Is6() || ip.Is4In6() || ip.Zone() != "" || "["+ip.String()+"]" != host {
			return "its address is not in the usual form"
		}
		return ""
	case strings.HasSuffix(host, "."):
		return "its host ends in a dot"
	}
	for i := range len(host) {
		if k := kinds[host[i]]; k&(unreserved|subDelims) == 0 || 'A' <= host[i] && host[i] <= 'Z' {
			return "its host is not plain ASCII in lower case"
		}
	}
	if defaultPorts[c.scheme] != "" && isNumeric(host[strings.LastIndexByte(host, '.')+1:]) {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Is4() {
			return "its address is not in the usual form"
		}
	}
	return ""
}

// isNumeric reports whether the last label of a host makes browsers take the host for an
// IPv4 address (URL standard, "ends in a number").
func isNumeric(label string) bool {
	return label != "" && strings.Trim(label, "0123456789") == "" || strings.HasPrefix(label, "0x")
}

func (c *checker) path(path string) string {
	if why := c.characters(path, "/"); why != "" {
		return why
	}
	if c.scheme == "file" && len(path) > 4 && strings.HasPrefix(path[2:], "%7C") && kinds[path[1]]&letter != 0 {
		return "it has a bar after the letter of a drive"
	}
	rest := strings.TrimPrefix(path, "/")
	for rest != "" {
		segment, after, more := strings.Cut(rest, "/")
		name, _, parameters := strings.Cut(segment, ";")
		switch {
		case name == "": // of parameters alone, too: some servers cut them off
			return "it has an empty segment"
		case name == "." || name == "..":
			return "it has a dot segment"
		case parameters && more:
			return "it has parameters before its last segment"
		case strings.HasSuffix(name, ".") || strings.HasSuffix(name, "%20"):
			return "it has a segment that ends in a dot or a space"
		case strings.Contains(name, "::$"):
			return "it names a stream of a file"
		}
		rest = after
	}
	return ""
}

// Kinds of characters (RFC 3986, 2.2 and 2.3).
const (
	unreserved = 1 << iota
	subDelims
	inPath // beside these
	letter
)

var kinds = func() (k [256]uint8) {
	for c := range 256 {
		switch b := byte(c); {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
			k[c] = unreserved | letter
		case '0' <= b && b <= '9', strings.IndexByte("-._~", b) >= 0:
			k[c] = unreserved
		case strings.IndexByte("!$&'()*+,;=", b) >= 0:
			k[c] = subDelims
		case b == ':' || b == '@':
			k[c] = inPath
		}
	}
	return k
}()

// characters checks the characters of a path or a query, which may contain the delimiters.
func (c *checker) characters(s, delimiters string) string {
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case kinds[b] != 0 || strings.IndexByte(delimiters, b) >= 0:
		case b == '#':
			return "it has a fragment"
		case b == '\\':
			return "it has a backslash"
		case b != '%':
			return "it has a character that has to be percent-encoded"
		default:
			if i+2 >= len(s) || upperHex(s[i+1]) < 0 || upperHex(s[i+2]) < 0 {
				return "its percent-encoding is not in upper case"
			}
			if why := c.encodedByte(byte(upperHex(s[i+1])<<4 | upperHex(s[i+2]))); why != "" {
				return why
			}
			i += 2
		}
	}
	return ""
}

func (c *checker) encodedByte(b byte) string {
	switch {
	case b == '/' || b == '\\' || b == '.' || b == '%':
		return "it has an encoded slash, backslash, dot or percent sign"
	case kinds[b]&unreserved != 0:
		return "it encodes a character that needs no encoding"
	case b < ' ' || b == 0x7f:
		return "it has a control character"
	case b >= utf8.RuneSelf:
		c.encoded = true
	}
	return ""
}

func upperHex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// decodedViolation checks what the encoded bytes of a path and a query stand for.
func decodedViolation(path, query string) string {
	decoded := decode(path + "?" + query)
	plain := decoded
	switch {
	case !utf8.ValidString(decoded):
		return "it encodes bytes that are not UTF-8"
	case norm.NFKC.IsNormalString(decoded):
	case !norm.NFC.IsNormalString(decoded):
		return "it encodes characters that are not in NFC"
	default:
		plain = norm.NFKC.String(decoded)
	}
	slashes := 0
	for _, r := range decoded {
		switch {
		case r == '/':
			slashes++
		case r < utf8.RuneSelf:
		case unicode.IsControl(r):
			return "it has a control character"
		case plaintext.IsInvisible(r):
			return "it has an invisible character"
		}
	}
	for _, r := range plain {
		switch r {
		case '/':
			slashes--
		case '\\', '%', 0x2044, 0x2215, 0x2216, 0xa5, 0x20a9: // code pages of Windows make slashes and backslashes of these
			return misreadable
		}
	}
	if slashes != 0 {
		return misreadable
	}
	plain, _, _ = strings.Cut(plain, "?")
	for segment := range strings.SplitSeq(plain, "/") {
		name, _, _ := strings.Cut(segment, ";")
		if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
			return "it has a segment that may be read as one that ends in a dot or a space"
		}
	}
	return ""
}

const misreadable = "it has a character that may be read as a slash, a backslash or a percent sign"

// decode takes one level of percent-encoding away. Other text stays.
func decode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := upperHex(upper(s[i+1])), upperHex(upper(s[i+2]))
			if high >= 0 && low >= 0 {
				b = append(b, byte(high<<4|low))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - ('a' - 'A')
	}
	return c
}
