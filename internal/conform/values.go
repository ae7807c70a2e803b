package conform

import (
	"fmt"
	"strconv"
	"strings"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// kindOf names the JSON type of a value.
func kindOf(v wire.Value) string {
	switch v.Kind() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	case 0:
		return "missing"
	default:
		return "a boolean"
	}
}

// stringOf returns the JSON of a value as the text of a string.
func stringOf(v wire.Value) wire.Raw { return wire.String(string(v.Raw())) }

// aString returns the check of a member that is a string.
func aString(section string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw { return w.text(v, section) }
}

// text checks a string. A number or a boolean is one without its quotes.
func (w *walk) text(v wire.Value, section string) wire.Raw {
	switch v.Kind() {
	case '"':
		return nil
	case '{', '[':
		w.report(WrongType, section, true, "must be a string, not "+kindOf(v))
		return removed
	default:
		w.report(WrongType, section, true, "must be a string, not "+kindOf(v))
		return stringOf(v)
	}
}

// anyText checks a string in whose place any JSON can stand as text.
func anyText(section string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw {
		if v.Kind() == '"' {
			return nil
		}
		w.report(WrongType, section, true, "must be a string, not "+kindOf(v)+"; JSON has to be written as text")
		return stringOf(v)
	}
}

// aBool returns the check of a member that is true or false.
func aBool(section string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw {
		if k := v.Kind(); k == 't' || k == 'f' {
			return nil
		}
		w.report(WrongType, section, true, "must be true or false, not "+kindOf(v))
		switch text, _ := v.Text(); {
		case strings.EqualFold(text, "true"), string(v.Raw()) == "1":
			return wire.Raw("true")
		case strings.EqualFold(text, "false"), string(v.Raw()) == "0":
			return wire.Raw("false")
		}
		return removed
	}
}

// aCount returns the check of a member that is a whole number and not negative.
func aCount(section string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw {
		if n, ok := v.Int(); ok {
			if n >= 0 {
				return nil
			}
			w.report(InvalidValue, section, true, "must not be negative")
			return removed
		}
		w.report(WrongType, section, true, "must be a whole number that is not negative")
		text, ok := v.Text()
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); ok && err == nil && n >= 0 {
			return wire.Raw(strconv.FormatInt(n, 10))
		}
		return removed
	}
}

// oneOf returns the check of a string that is one of few.
func oneOf(section string, values ...string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw {
		for _, s := range values {
			if v.IsString(s) {
				return nil
			}
		}
		w.report(InvalidValue, section, true, "must be one of "+strings.Join(values, ", "))
		text, _ := v.Text()
		for _, s := range values {
			if strings.EqualFold(text, s) {
				return wire.String(s)
			}
		}
		return removed
	}
}

// aMIMEType checks a MIME type (RFC 6838, 4.2) that may be left out.
func aMIMEType(w *walk, v wire.Value) wire.Raw {
	text, ok := v.Text()
	if ok && isMIMEType(text) {
		return nil
	}
	if !ok {
		w.report(InvalidMIMEType, secResource, true, "must be a string such as text/plain, not "+kindOf(v))
		return removed
	}
	w.report(InvalidMIMEType, secResource, true, fmt.Sprintf("%q is no MIME type; it must look like text/plain", plaintext.Clip(text, 64)))
	if text = strings.TrimSpace(text); isMIMEType(text) {
		return wire.String(text)
	}
	return removed
}

// isMIMEType reports whether text is a type, a slash, a subtype, and perhaps
// parameters.
func isMIMEType(text string) bool {
	name, params, _ := strings.Cut(text, ";")
	kind, sub, ok := strings.Cut(strings.TrimRight(name, " "), "/")
	if !ok || !isMIMEName(kind) || !isMIMEName(sub) {
		return false
	}
	for i := range len(params) {
		if params[i] < ' ' || params[i] == 0x7f {
			return false
		}
	}
	return true
}

func isMIMEName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || i > 0 && strings.IndexByte("!#$&-^_.+", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= 127
}

// aURI checks a URI (RFC 3986): a scheme, and no white space. It has no answer
// and needs none: clients take any string.
func aURI(w *walk, v wire.Value) wire.Raw {
	text, ok := v.Text()
	if !ok {
		return w.text(v, secResource)
	}
	if !isURI(text) {
		// The URI itself may hold what is not for logs.
		w.report(InvalidURI, secResource, false, "is no URI; it must begin with a scheme such as file: and hold no white space")
	}
	return nil
}

func isURI(text string) bool {
	scheme, _, ok := strings.Cut(text, ":")
	if !ok || scheme == "" {
		return false
	}
	for i := range len(scheme) {
		c := scheme[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && ('0' <= c && c <= '9' || strings.IndexByte("+-.", c) >= 0)) {
			return false
		}
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] == 0x7f {
			return false
		}
	}
	return true
}

// aMeta checks a _meta and its keys, which had no form before 2025-06-18.
func aMeta(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '{' {
		w.report(InvalidMeta, secMeta, true, "must be an object, not "+kindOf(v))
		return removed
	}
	if w.rev != "" && !w.rev.AtLeast(wire.Rev20250618) {
		return nil
	}
	for m := range v.Members() {
		if key := m.Key.Str(); !isMetaKey(key) {
			w.reportMember(key, InvalidMeta, secMeta, false, "is no key of _meta: it must be letters, digits and -_. after an optional prefix such as example.com/")
		}
	}
	return nil
}

// isMetaKey reports whether a key has the form of one: an optional prefix of
// labels with a slash, and a name (2025-06-18, basic, "_meta").
func isMetaKey(key string) bool {
	prefix, name, has := strings.Cut(key, "/")
	if !has {
		prefix, name = "", key
	}
	if has {
		for label := range strings.SplitSeq(prefix, ".") {
			if !isMetaName(label, "-") || label == "" || !isLetter(label[0]) {
				return false
			}
		}
	}
	return isMetaName(name, "-_.")
}

// isMetaName reports whether s begins and ends with a letter or a digit and has
// those and inner between. The empty one is a name.
func isMetaName(s, inner string) bool {
	for i := range len(s) {
		plain := isLetter(s[i]) || '0' <= s[i] && s[i] <= '9'
		if !plain && (i == 0 || i == len(s)-1 || strings.IndexByte(inner, s[i]) < 0) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
