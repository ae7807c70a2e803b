package credentials

import (
	"fmt"
	"net/textproto"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Part is a part of a header value: literal text, or an expression about the principal:
// principal.subject, principal.issuer, principal.groups or principal.claims.<path>.
type Part struct {
	Text       string
	Expression string // "" for literal text
}

// template is a header whose value depends on the principal.
type template struct {
	name  string // canonical
	parts []Part
}

func newTemplate(name string, parts []Part) (template, error) {
	for _, p := range parts {
		if p.Expression != "" && lookup(p.Expression) == nil {
			return template{}, fmt.Errorf("the header %s: the expression %q is not known", name, p.Expression)
		}
	}
	return template{textproto.CanonicalMIMEHeaderKey(name), parts}, nil
}

// maxHeader bounds the value of one header, in bytes.
const maxHeader = 8 << 10

// value returns the value of the header. The error is an *Error that names the expression
// without a usable value.
func (t template) value(principal *call.Principal) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		text := p.Text
		if p.Expression != "" {
			var ok bool
			if text, ok = lookup(p.Expression)(principal); !ok {
				return "", failf("the header %s cannot be sent: the caller has no %s, or one of the wrong type", t.name, p.Expression)
			}
			if !isHeaderText(text) {
				return "", failf("the header %s cannot be sent: %s of the caller has characters that a header must not contain", t.name, p.Expression)
			}
		}
		b.WriteString(text)
	}
	if b.Len() > maxHeader {
		return "", failf("the header %s cannot be sent: it is larger than %d bytes", t.name, maxHeader)
	}
	return b.String(), nil
}

// isHeaderText reports whether a text may be part of a header: it contains no control
// characters, and no spaces at its ends, which servers would remove.
func isHeaderText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) }) && strings.Trim(s, " ") == s
}

// lookup returns the function that evaluates an expression, nil if the expression is
// unknown. The function reports false if the principal has no value for it.
func lookup(expression string) func(principal *call.Principal) (string, bool) {
	claim, isClaim := strings.CutPrefix(expression, "principal.claims.")
	switch {
	case expression == "principal.subject":
		return func(principal *call.Principal) (string, bool) { return principal.Subject, principal.Subject != "" }
	case expression == "principal.issuer":
		return func(principal *call.Principal) (string, bool) { return principal.Issuer, principal.Issuer != "" }
	case expression == "principal.groups":
		return func(principal *call.Principal) (string, bool) { return join(principal.Groups) }
	case isClaim && claim != "":
		return func(principal *call.Principal) (string, bool) { return claimText(principal.Claims, claim) }
	}
	return nil
}

// join joins values with commas. It reports false if a value contains a comma, which
// would look like two values.
func join(all []string) (string, bool) {
	for _, s := range all {
		if s == "" || strings.Contains(s, ",") || !isHeaderText(s) {
			return "", false
		}
	}
	return strings.Join(all, ","), len(all) > 0
}

// claimText returns a claim as text: a string, a number, a boolean, or strings joined
// with commas. The path is the name of a claim, or nested names with dots between them.
func claimText(claims wire.Raw, path string) (string, bool) {
	switch v := call.ClaimAt(wire.ValueOf(claims), path); v.Kind() {
	case '"':
		s, ok := v.Text()
		return s, ok && s != ""
	case '0', 't', 'f':
		return string(v.Raw()), true
	case '[':
		var all []string
		for e := range v.Elements() {
			s, ok := e.Text()
			if !ok {
				return "", false
			}
			all = append(all, s)
		}
		return join(all)
	}
	return "", false
}
