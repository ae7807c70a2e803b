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

// Part is a piece of a header's value: text as it is, or an expression about the
// principal, which is one of principal.subject, principal.issuer, principal.groups
// and principal.claims.<path>.
type Part struct {
	Text       string
	Expression string // "" for text
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

// maxHeader bounds the value of one header.
const maxHeader = 8 << 10

// value renders the header. The error is an *Error that names the expression which
// the principal has nothing for, or nothing that may stand in a header.
func (t template) value(who *call.Principal) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		text := p.Text
		if p.Expression != "" {
			var ok bool
			if text, ok = lookup(p.Expression)(who); !ok {
				return "", failf("the header %s cannot be sent: the caller has no %s, or one of another form", t.name, p.Expression)
			}
			if !isHeaderText(text) {
				return "", failf("the header %s cannot be sent: %s of the caller has characters that cannot stand in it", t.name, p.Expression)
			}
		}
		b.WriteString(text)
	}
	if b.Len() > maxHeader {
		return "", failf("the header %s cannot be sent: it is larger than %d bytes", t.name, maxHeader)
	}
	return b.String(), nil
}

// isPlain tells whether a text comes out of a header as it went in: nothing in it
// ends a line, and no space at an end that servers take off.
func isHeaderText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) }) && strings.Trim(s, " ") == s
}

// lookup returns what an expression stands for, nil for one that is not known. It
// reports false for what a principal has not.
func lookup(expression string) func(who *call.Principal) (string, bool) {
	claim, isClaim := strings.CutPrefix(expression, "principal.claims.")
	switch {
	case expression == "principal.subject":
		return func(who *call.Principal) (string, bool) { return who.Subject, who.Subject != "" }
	case expression == "principal.issuer":
		return func(who *call.Principal) (string, bool) { return who.Issuer, who.Issuer != "" }
	case expression == "principal.groups":
		return func(who *call.Principal) (string, bool) { return join(who.Groups) }
	case isClaim && claim != "":
		return func(who *call.Principal) (string, bool) { return claimText(who.Claims, claim) }
	}
	return nil
}

// join puts commas between values. One that has a comma would look like two.
func join(all []string) (string, bool) {
	for _, s := range all {
		if s == "" || strings.Contains(s, ",") || !isHeaderText(s) {
			return "", false
		}
	}
	return strings.Join(all, ","), len(all) > 0
}

// claimText returns a claim as text: a string, a number, true or false, or a list of
// strings with commas between. The path is the name of a claim, or names of members
// within it with dots between.
func claimText(claims wire.Raw, path string) (string, bool) {
	v := wire.ValueOf(claims).Get(path)
	if !v.Exists() {
		v = wire.ValueOf(claims).Get(strings.Split(path, ".")...)
	}
	switch v.Kind() {
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
