package policy

import (
	"slices"
	"strings"
)

// maxReadings bounds as how many texts one URI is taken apart.
const maxReadings = 16

// readings returns the texts that servers may take for a URI before they take it apart,
// itself first. It is false where there are more than can be judged.
func readings(uri string) (all []string, ok bool) {
	all = []string{uri}
	for i := 0; i < len(all); i++ {
		for _, read := range []func(string) (string, bool){unwrapped, wholly, withoutUser, share, drive, spaced} {
			if text, other := read(all[i]); other && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
		if len(all) > maxReadings {
			return all[:maxReadings], false
		}
	}
	return all, true
}

// unwrapped returns what stands behind "url:", which Java takes off.
func unwrapped(uri string) (inner string, wrapped bool) {
	const mark = "url:"
	start := strings.TrimLeft(uri, " \t\r\n")
	if len(start) <= len(mark) || !strings.EqualFold(start[:len(mark)], mark) {
		return uri, false
	}
	return start[len(mark):], true
}

// wholly returns a URI decoded as a whole, where that makes another scheme or host of
// it than decoding its parts does.
func wholly(uri string) (text string, other bool) {
	head := uri // as far as there is something of scheme and host
	for i, slashes := 0, 0; i < len(uri) && slashes < 3; i++ {
		if head = uri[:i+1]; uri[i] == '/' {
			slashes++
		}
	}
	if !strings.Contains(head, "%") {
		return uri, false
	}
	last := split(uri)
	for range maxLevels + 1 {
		before := uri
		if uri = decode(uri); uri == before {
			return uri, false
		}
		next := split(uri)
		if next.scheme != last.scheme || next.authority != lowerHost(last.scheme, decode(last.authority), octal) {
			return uri, true
		}
		last = next
	}
	return uri, false
}

// withoutUser returns a URI without the user, where that has a character which ends
// the host for other readers: who goes by the last @ before the path has another host.
func withoutUser(uri string) (rest string, other bool) {
	scheme, after, found := strings.Cut(uri, ":")
	after, net := strings.CutPrefix(after, "//")
	host, path, below := strings.Cut(after, "/")
	at := strings.LastIndexByte(host, '@')
	if !found || !net || at < 0 || !strings.ContainsAny(host[:at], `\?#`) {
		return uri, false
	}
	if below {
		path = "/" + path
	}
	return scheme + "://" + host[at+1:] + path, true
}

// share returns the URI of a file with more than three slashes as one with a host,
// which is how Windows names files of others.
func share(uri string) (text string, other bool) {
	if !isFile(uri) {
		return uri, false
	}
	p := split(uri)
	path := strings.ReplaceAll(decoded(p.path), `\`, "/")
	if p.authority != "" || !strings.HasPrefix(path, "//") {
		return uri, false
	}
	return "file://" + strings.TrimLeft(path, "/"), true
}

// drive returns the URI of a file on a drive of Windows as the URL standard reads it: a
// bar for the colon, the drive in the place of the host, and no way up from it.
func drive(uri string) (text string, other bool) {
	if !isFile(uri) {
		return uri, false
	}
	_, rest, _ := strings.Cut(uri, ":")
	rest = oneSlash("/" + strings.ReplaceAll(decoded(rest), `\`, "/"))
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	const local = "/localhost/"
	if len(rest) > len(local) && strings.EqualFold(rest[:len(local)], local) {
		rest = rest[len(local)-1:]
	}
	for _, path := range []string{rest, withoutDots(rest)} {
		if len(path) < 3 || path[1]|0x20 < 'a' || path[1]|0x20 > 'z' || path[2] != ':' && path[2] != '|' || len(path) > 3 && path[3] != '/' {
			continue
		}
		return "file:///" + path[1:2] + ":" + withoutDots(path[3:]), true
	}
	return uri, false
}

func isFile(uri string) bool {
	scheme, _, found := strings.Cut(strings.TrimSpace(uri), ":")
	return found && strings.EqualFold(scheme, "file")
}

// spaced returns a URI with a space for each plus sign, as forms have them.
func spaced(uri string) (text string, other bool) {
	start := strings.IndexByte(uri, ':') + 1
	text = uri[:start] + strings.ReplaceAll(uri[start:], "+", " ")
	return text, text != uri
}

// decoded takes all levels of percent-encoding away that are looked at.
func decoded(s string) string {
	for range maxLevels + 1 {
		s = decode(s)
	}
	return s
}
