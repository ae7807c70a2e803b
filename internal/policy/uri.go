package policy

import (
	"slices"
	"strings"
	"unicode"
)

// Bounds on what of a URI is read in other spellings.
const (
	maxURI    = 64 << 10 // bytes
	maxLevels = 4        // of percent-encoding, one inside the other
)

// Spellings returns in which other ways a server may read a URI.
//
// In same are those that stand for the resource by RFC 3986 (case of scheme and
// host, percent-encoding, dot segments, default ports) and in the eyes of
// servers that decode once more, read backslashes as slashes, or drop tabs, as
// the URL standard of browsers has it (it also reads addresses that are written as
// one number, or with octal ones); and those of the next kind that lead to another
// place. In loose are those that more careless servers may take for the
// same: with runs of slashes as one, without the query, the fragment, a slash at
// the end, the user, or the host of a file; with segments of the path cut at a
// semicolon or a stream of NTFS, without dots and spaces at their ends; with
// compatibility characters for the plain ones (NFKC), without invisible ones, in
// lower case; and those of the other [readings]. The URI itself is in neither.
//
// It is false for a URI that is not to be judged at all: one that is too long,
// encoded too often or as %u, has a control character (encoded, in the query or
// the fragment, only NUL counts), a host that is not ASCII (the A-label is its one
// spelling) or has a space, or bytes that no UTF-8 has but decoders took for dots and
// slashes.
func Spellings(uri string) (same, loose []string, ok bool) {
	if isPlain(uri) {
		if hasUpper(uri) {
			loose = []string{strings.ToLower(uri)}
		}
		return nil, loose, true
	}
	if len(uri) > maxURI || strings.ContainsFunc(uri, unicode.IsControl) {
		return nil, nil, false
	}
	texts, ok := readings(uri)
	if !ok {
		return nil, nil, false
	}
	for i, text := range texts {
		s, l, ok := spellings(text)
		if !ok {
			return nil, nil, false
		}
		if i == 0 {
			same, loose = s, l
			continue
		}
		loose = union(loose, slices.Concat([]string{text}, s, l))
	}
	return same, slices.DeleteFunc(loose, func(s string) bool { return s == uri }), true
}

// spellings returns those of a text that is taken apart as it is.
func spellings(uri string) (same, loose []string, ok bool) {
	p := split(uri)
	add := func(to *[]string, s string) {
		if s != uri && !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
	}
	for level := 0; ; level++ {
		if p.unreadable() {
			return nil, nil, false
		}
		path := strings.ReplaceAll(p.path, `\`, "/")
		tidy := withoutDots(path)
		add(&same, p.with(tidy, p.tail))
		if tidy != path {
			add(&same, p.with(withoutDots(oneSlash(path)), p.tail))
		}
		next := p
		next.scheme = strings.ToLower(decode(p.scheme))
		next.path, next.tail, next.authority = decode(p.path), decode(p.tail), lowerHost(p.scheme, decode(p.authority), octal)
		next.simple = lowerHost(p.scheme, decode(p.simple), decimal)
		if next == p {
			break
		}
		if level == maxLevels {
			return nil, nil, false
		}
		p = next
	}
	read := carelessly(p.path)
	if decode(read) != read {
		return nil, nil, false // encoded once more, in other characters
	}
	if leads := withoutDots(oneSlash(read)); strings.Count(read, "/") > strings.Count(strings.ReplaceAll(p.path, `\`, "/"), "/") || withoutDots(read) != read {
		add(&same, p.with(leads, p.tail))
	}
	paths := []string{withoutDots(oneSlash(strings.ReplaceAll(p.path, `\`, "/"))), withoutDots(oneSlash(read))}
	if i := strings.IndexAny(paths[1], "?#"); i >= 0 {
		paths = append(paths, paths[1][:i])
	}
	authorities := []string{p.authority}
	if i := strings.IndexByte(p.authority, '@'); i >= 0 { // which of several ends the user is not agreed upon
		last := strings.LastIndexByte(p.authority, '@')
		first, _, _ := strings.Cut(p.authority[i+1:], "@")
		authorities = append(authorities, p.authority[last+1:], lowerHost(p.scheme, first, octal))
	}
	if p.simple != p.authority {
		authorities = append(authorities, p.simple)
	}
	if p.scheme == "file" && p.authority != "" {
		authorities = append(authorities, "")
	}
	for _, p.authority = range authorities {
		for _, path := range paths {
			add(&loose, p.with(path, p.tail))
			add(&loose, p.with(path, ""))
			if bare := strings.TrimRight(path, "/"); bare != "" || p.authority != "" {
				add(&loose, p.with(bare, ""))
			}
		}
	}
	for _, s := range slices.Concat([]string{uri}, same, loose) {
		add(&loose, fold(s))
	}
	return same, loose, true
}

// Bares returns what all spellings of a URI come down to in the eyes of the most
// careless servers, which may take it for one of several. URIs of different resources
// may have some in common.
func Bares(uri string) []string {
	texts, _ := readings(uri)
	for i, text := range texts {
		texts[i] = bare(text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

func bare(uri string) string {
	p := split(uri)
	for range maxLevels + 1 {
		p.path, p.authority = decode(p.path), lowerHost(p.scheme, decode(p.authority), octal)
	}
	if i := strings.LastIndexByte(p.authority, '@'); i >= 0 {
		p.authority = p.authority[i+1:]
	}
	if p.scheme == "file" {
		p.authority = ""
	}
	path := carelessly(p.path)
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	return fold(p.with(strings.TrimRight(withoutDots(oneSlash(path)), "/"), ""))
}

// plainText returns a part of a glob of URIs with the scheme, the host and the
// slashes as spellings have them; first says that a URI begins with it, whole that it
// is all of the glob.
func plainText(part string, first, whole bool) string {
	part = strings.ReplaceAll(part, `\`, "/")
	if !first {
		return part
	}
	scheme, rest, found := strings.Cut(part, "://")
	if !found {
		return part
	}
	scheme = strings.ToLower(scheme)
	bare := scheme[strings.LastIndexByte(scheme, '+')+1:] // without a prefix
	host, path, found := strings.Cut(rest, "/")
	if !found && !(whole && special[bare] && !strings.ContainsAny(host, "?#")) { // an asterisk may be in the middle of it
		return scheme + "://" + strings.ToLower(host)
	}
	return scheme + "://" + lowerHost(bare, host, octal) + "/" + path
}

// isPlain reports whether a URI has but one spelling beside its lower case, as
// most have.
func isPlain(uri string) bool {
	for i := range len(uri) {
		switch c := uri[i]; {
		case c <= ' ' || c >= 0x7f || c == '%' || c == '\\' || c == '?' || c == '#' || c == ';' || c == '$':
			return false
		case c == '/' && i+1 < len(uri) && uri[i+1] == '.', c == '.' && (i+1 == len(uri) || uri[i+1] == '/'):
			return false
		}
	}
	scheme, rest, found := strings.Cut(uri, ":")
	if !found || hasUpper(scheme) || strings.Contains(rest, "+") {
		return false
	}
	rest, found = strings.CutPrefix(rest, "//")
	host, slash := "", false
	if found {
		host, rest, slash = strings.Cut(rest, "/")
	}
	web := special[scheme] && scheme != "file"
	if web && address4(host, octal) != host {
		return false
	}
	if slash && rest == "" || scheme == "file" && len(rest) > 1 && (rest[1] == ':' || rest[1] == '|') { // a root, or a drive
		return false
	}
	return !strings.Contains(rest, "//") && !strings.HasPrefix(rest, "/") && !strings.HasPrefix(rest, ".") && !strings.HasSuffix(rest, "/") &&
		!hasUpper(host) && !strings.ContainsAny(host, "@:") && !strings.HasSuffix(host, ".") &&
		(!special[scheme] || found) && (!web || host != "" && rest != "") && (scheme != "file" || host == "")
}

// special are the schemes whose URIs always have a host or an absolute path
// (URL standard, "special scheme").
var special = map[string]bool{"http": true, "https": true, "ws": true, "wss": true, "ftp": true, "file": true}

var defaultPorts = map[string]string{"http": ":80", "ws": ":80", "https": ":443", "wss": ":443", "ftp": ":21"}

// parts is a URI taken apart; tail is the query and the fragment.
type parts struct {
	scheme, authority, path, tail string
	net                           bool   // there is an authority, perhaps an empty one
	simple                        string // the authority for readers who do not know octal numbers
}

// unbroken drops what the URL standard drops anywhere in a URL.
var unbroken = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// split takes a URI apart as the most forgiving reader would.
func split(uri string) parts {
	uri = strings.TrimFunc(uri, func(r rune) bool { return r <= ' ' || unicode.IsSpace(r) })
	uri = unbroken.Replace(uri)
	var p parts
	rest := uri
	if scheme, after, found := strings.Cut(uri, ":"); found && !strings.ContainsAny(scheme, "/?#") {
		p.scheme, rest = strings.ToLower(scheme), after
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest, p.tail = rest[:i], rest[i:]
	}
	slashed := strings.ReplaceAll(rest, `\`, "/")
	switch {
	case p.scheme == "file" && !strings.HasPrefix(slashed, "//"):
		p.net, p.path = true, "/"+strings.TrimPrefix(slashed, "/")
		return p
	case special[p.scheme] && p.scheme != "file":
		p.net, rest = true, strings.TrimLeft(slashed, "/")
	case special[p.scheme], strings.HasPrefix(rest, "//"):
		p.net, rest = true, slashed[2:]
	default:
		p.path = rest
		return p
	}
	p.authority, p.path = rest, ""
	if i := strings.IndexAny(rest, `/\`); i >= 0 {
		p.authority, p.path = rest[:i], rest[i:]
	}
	if p.path == "" && special[p.scheme] {
		p.path = "/"
	}
	p.authority, p.simple = lowerHost(p.scheme, p.authority, octal), lowerHost(p.scheme, p.authority, decimal)
	return p
}

// with returns the URI with another path and tail.
func (p parts) with(path, tail string) string {
	var b strings.Builder
	if p.scheme != "" {
		b.WriteString(p.scheme)
		b.WriteByte(':')
	}
	if p.net {
		b.WriteString("//")
		b.WriteString(p.authority)
	}
	b.WriteString(path)
	b.WriteString(tail)
	return b.String()
}

// withoutDots removes dot segments (RFC 3986, 5.2.4). A segment counts as one
// also with parameters behind it, which some servers cut off first.
func withoutDots(path string) string {
	if !strings.Contains(path, ".") {
		return path
	}
	segments := strings.Split(path, "/")
	rooted := segments[0] == "" && len(segments) > 1
	out := make([]string, 0, len(segments))
	for i, s := range segments {
		name, _, _ := strings.Cut(s, ";")
		last := i == len(segments)-1
		switch {
		case name == "..":
			if len(out) > 1 || len(out) == 1 && !rooted {
				out = out[:len(out)-1]
			}
		case name != ".":
			out = append(out, s)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	if rooted && len(out) == 1 {
		return "/"
	}
	return strings.Join(out, "/")
}

// oneSlash makes runs of slashes one.
func oneSlash(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// decode takes one level of percent-encoding away. What is none stays.
func decode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := hexDigit(s[i+1]), hexDigit(s[i+2])
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

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func hasUpper(s string) bool {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return true
		}
	}
	return false
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
