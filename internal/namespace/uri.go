package namespace

import "strings"

const (
	uiScheme = "ui:"
	uiRoot   = "ui://"
	rawMark  = "0:" // stands where a scheme would: what follows is native text that begins with none
)

// PublicURI returns the public form of a native URI, or of a native template
// of URIs. The native text may be any string.
func (s *Naming) PublicURI(native string) string {
	lead, mark, rest := s.publicURI(native)
	return lead + mark + rest
}

// IsPublicURI reports whether public is the public form of a native URI. Other spellings
// may have that native form, too. It does not allocate.
func (s *Naming) IsPublicURI(public, native string) bool {
	lead, mark, rest := s.publicURI(native)
	public, ok := strings.CutPrefix(public, lead)
	return ok && strings.HasPrefix(public, mark) && public[len(mark):] == rest
}

// publicURI returns the parts that the public form of a native URI is put together from.
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

// NativeURI returns the native form of a public URI or template, and false for
// one that is not of this space. It is the inverse of [Naming.PublicURI], and
// takes also what a public template expands to. Web addresses, and all URIs
// where there is no prefix, are their own native form. It allocates for ui:
// URIs alone.
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

// Owner is what a public URI says about whose it is.
type Owner struct {
	Name string // the upstream's name where ByUpstream, else its prefix
	ui   bool
	at   int // where the text after the owner's name begins
}

// ByUpstream reports whether the owner is named by its upstream's name, as ui:
// URIs do, and not by its prefix.
func (o Owner) ByUpstream() bool { return o.ui }

// OwnerOf reads who owns a public URI, and false when the URI has neither a
// prefix nor an upstream in it. It does not know whether there is such a
// prefix or upstream.
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

// native returns what is left of public without its owner, and false for a
// form that PublicURI and expansions of its templates never have.
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

// IsWeb reports whether a URI is of http or https. Those are never renamed: a
// client may open them by itself.
func IsWeb(uri string) bool {
	n := strings.IndexByte(uri, ':')
	if n != 4 && n != 5 {
		return false
	}
	return strings.EqualFold(uri[:n], "http") || strings.EqualFold(uri[:n], "https")
}

// schemeLen returns the length of the scheme in lower case that uri begins
// with (RFC 3986, 3.1), 0 when there is none.
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

// upstreamLen returns the length of the upstream's name that s begins with.
func upstreamLen(s string) int {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || i > 0 && ('0' <= c && c <= '9' || c == '-')) {
			return i
		}
	}
	return len(s)
}
