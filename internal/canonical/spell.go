package canonical

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxSpelled bounds the URIs of which a canonical spelling is looked for.
const maxSpelled = 2 * MaxBytes

// URI returns the canonical spelling of a URI, and false if it has none, because
// some spellings are read in more than one way.
func URI(uri string) (string, bool) {
	if len(uri) > maxSpelled || !utf8.ValidString(uri) {
		return "", false
	}
	scheme, rest, found := strings.Cut(strings.TrimSpace(uri), ":")
	if !found {
		return "", false
	}
	scheme = strings.ToLower(scheme)
	bare := scheme[strings.LastIndexByte(scheme, '+')+1:]
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, hasQuery := cutQuery(rest)
	rest = strings.ReplaceAll(rest, `\`, "/")
	authority, path, net := "", rest, false
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexByte(after, '/')
		if end < 0 {
			end = len(after)
		}
		authority, path, net = spellAuthority(bare, after[:end]), after[end:], true
	} else if bare == "file" {
		path, net = "/"+rest, true
	}
	path = spellPath(path, net)
	out := scheme + ":"
	if net {
		out += "//" + authority
	}
	out += path
	if hasQuery && bare != "file" {
		if net && path == "" {
			out += "/"
		}
		out += "?" + spellCharacters(query)
	}
	if Violation(out) != "" {
		return "", false
	}
	return out, true
}

func spellAuthority(scheme, s string) string {
	host := strings.ToLower(s[strings.LastIndexByte(s, '@')+1:])
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") {
		host, port = host[:i], strings.TrimLeft(host[i+1:], "0")
	}
	host = strings.TrimSuffix(host, ".")
	if scheme == "file" && host == "localhost" {
		host = ""
	}
	if strings.HasPrefix(host, "[") {
		if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
			host = "[" + ip.String() + "]"
		}
	}
	if port != "" && port != defaultPorts[scheme] {
		return host + ":" + port
	}
	return host
}

// spellPath brings the characters of a path into their canonical spelling, and then takes
// away empty segments and dot segments.
func spellPath(path string, rooted bool) string {
	path = strings.ReplaceAll(spellCharacters(path), "%5C", "/")
	var out []string
	segments := strings.Split(path, "/")
	for _, s := range segments {
		name, _, _ := strings.Cut(s, ";") // some servers cut parameters off first
		switch name {
		case "", ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, s)
		}
	}
	spelled := strings.Join(out, "/")
	last, _, _ := strings.Cut(segments[len(segments)-1], ";")
	if spelled != "" && len(segments) > 1 && (last == "" || last == "." || last == "..") {
		spelled += "/"
	}
	if strings.HasPrefix(path, "/") || rooted && spelled != "" {
		spelled = "/" + spelled
	}
	return spelled
}

// spellCharacters encodes exactly those characters of a path or a query that have to be.
func spellCharacters(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c, escaped := s[i], false
		if c == '%' && i+2 < len(s) {
			if high, low := upperHex(upper(s[i+1])), upperHex(upper(s[i+2])); high >= 0 && low >= 0 {
				c, escaped = byte(high<<4|low), true
				i += 2
			}
		}
		if c >= utf8.RuneSelf || c == '/' || kinds[c]&unreserved != 0 || !escaped && (kinds[c] != 0 || c == '?') {
			b.WriteByte(c)
		} else {
			appendEscape(&b, c)
		}
	}
	normal := norm.NFC.String(b.String())
	b.Reset()
	for i := range len(normal) {
		if c := normal[i]; c >= utf8.RuneSelf {
			appendEscape(&b, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func appendEscape(b *strings.Builder, c byte) {
	const digits = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(digits[c>>4])
	b.WriteByte(digits[c&15])
}
