package namespace

import "strings"

const (
	uiScheme = "ui:"
	uiRoot   = "ui://"
	rawMark  = "0:" // stands in the place of a scheme before native text without one
)

// PublicURI returns the public form of a native URI, or of a native template
// of URIs. The native text may be any string.
func (s *Naming) PublicURI(native string) string {
	lead, mark, rest := s.publicURI(native)
	return lead + mark + rest
}

// IsPublicURI reports whether public is the public form of a native URI. Other texts may
// lead to the same native URI. It does not allocate.
func (s *Naming) IsPublicURI(public, native string) bool {
	lead, mark, rest := s.publicURI(native)
	public, ok := strings.CutPrefix(public, lead)
	return ok && strings.HasPrefix(public, mark) && public[len(mark):] == rest
}

// publicURI returns the parts of the public form of a native URI.
func (s *Naming) publicURI(native string) (lead, mark, rest string) {
	if public, ok := s.renamed[native]; ok {
		return "", "", public
	}
	switch {
	case s.prefix == "" || IsWeb(native):
		return "", "", native
	case strings.HasPrefix(native, uiRoot):
		return s.uiPrefix, ".", native[len(uiRoot):]
	case strings.HasPrefix(native, uiScheme):
		return s.uiPrefix, "~/", native[len(uiScheme):]
	case schemeLen(native) > 0:
		return s.prefix, "+", native
	default:
		return s.prefix, "+" + rawMark, native
	}
}

// NativeURI returns the native form of a public URI or template, and false for one of
// another naming. It is the inverse of [Naming.PublicURI], and also accepts expansions of
// public templates. Web addresses, and all URIs without a prefix, are their own native
// form. It allocates only for ui: URIs.
func (s *Naming) NativeURI(public string) (native string, ok bool) {
	if native, ok = s.origin[public]; ok {
		return native, true
	}
	if s.prefix == "" || IsWeb(public) {
		return public, true
	}
	owner, ok := OwnerOf(public)
	switch {
	case !ok:
		return "", false
	case owner.ui && owner.Name != s.upstream, !owner.ui && owner.Name != s.prefix:
		return "", false
	}
	return owner.native(public)
}

// Owner is the upstream that a public URI names.
type Owner struct {
	Name string // the upstream's name if ByUpstream, otherwise its prefix
	ui   bool
	at   int // the index after the name
}

// ByUpstream reports whether the URI names the upstream by its name, as ui: URIs do, and
// not by its prefix.
func (o Owner) ByUpstream() bool { return o.ui }

// OwnerOf returns the owner that a public URI names, and false if it names none. It does
// not know which upstreams there are.
func OwnerOf(public string) (Owner, bool) {
	if rest, ok := strings.CutPrefix(public, uiRoot); ok {
		n := upstreamLen(rest)
		if n == 0 || n == len(rest) || rest[n] != '.' && rest[n] != '~' {
			return Owner{}, false
		}
		return Owner{rest[:n], true, len(uiRoot) + n}, true
	}
	n := upstreamLen(public)
	if n == 0 || n == len(public) || public[n] != '+' {
		return Owner{}, false
	}
	return Owner{public[:n], false, n + 1}, true
}

// native returns the native form of a public URI, and false for a text that neither
// PublicURI nor the expansion of a template makes.
func (o Owner) native(public string) (string, bool) {
	rest := public[o.at:]
	if !o.ui {
		if raw, ok := strings.CutPrefix(rest, rawMark); ok {
			return raw, true
		}
		return rest, schemeLen(rest) > 0 && !IsWeb(rest) && !strings.HasPrefix(rest, uiScheme)
	}
	if rest[0] == '.' {
		return uiRoot + rest[1:], true
	}
	if tail, ok := strings.CutPrefix(rest, "~/"); ok {
		return uiScheme + tail, true
	}
	return "", false
}

// IsWeb reports whether a URI is an http or https URI. Those are never renamed, because
// clients may open them themselves.
func IsWeb(uri string) bool {
	n := strings.IndexByte(uri, ':')
	if n != 4 && n != 5 {
		return false
	}
	return strings.EqualFold(uri[:n], "http") || strings.EqualFold(uri[:n], "https")
}

// schemeLen returns the length of the lower-case scheme at the beginning of uri (RFC 3986,
// 3.1), 0 for none.
func schemeLen(uri string) int {
	for i := range len(uri) {
		switch c := uri[i]; {
		case 'a' <= c && c <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			return i
		default:
			return 0
		}
	}
	return 0
}

// upstreamLen returns the length of the name of an upstream at the beginning of s.
func upstreamLen(s string) int {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || i > 0 && ('0' <= c && c <= '9' || c == '-')) {
			return i
		}
	}
	return len(s)
}
