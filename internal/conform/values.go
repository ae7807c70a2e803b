package conform

import (
	"fmt"
	"strconv"
	"strings"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// jsonAsString returns a string with the JSON of a value.
func jsonAsString(v wire.Value) wire.Raw { return wire.String(string(v.Raw())) }

// checkString returns the check of a string.
func checkString(section string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw { return w.stringOrQuoted(v, section) }
}

// stringOrQuoted checks a string. Repair quotes numbers and booleans.
func (w *walk) stringOrQuoted(v wire.Value, section string) wire.Raw {
	switch v.Kind() {
	case '"':
		return nil
	case '{', '[':
		w.report(WrongType, section, true, "must be a string, not "+v.KindName())
		return removed
	default:
		w.report(WrongType, section, true, "must be a string, not "+v.KindName())
		return jsonAsString(v)
	}
}

// checkText returns the check of a text. Repair replaces any other value by its JSON.
func checkText(section string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw {
		if v.Kind() == '"' {
			return nil
		}
		w.report(WrongType, section, true, "must be a string, not "+v.KindName()+"; write JSON as text")
		return jsonAsString(v)
	}
}

// checkBool returns the check of a boolean.
func checkBool(section string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw {
		if k := v.Kind(); k == 't' || k == 'f' {
			return nil
		}
		w.report(WrongType, section, true, "must be a boolean, not "+v.KindName())
		switch text, _ := v.Text(); {
		case strings.EqualFold(text, "true"), string(v.Raw()) == "1":
			return wire.Raw("true")
		case strings.EqualFold(text, "false"), string(v.Raw()) == "0":
			return wire.Raw("false")
		}
		return removed
	}
}

// checkCount returns the check of a non-negative integer.
func checkCount(section string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw {
		if n, ok := v.Int(); ok {
			if n >= 0 {
				return nil
			}
			w.report(InvalidValue, section, true, "must not be negative")
			return removed
		}
		w.report(WrongType, section, true, "must be a non-negative integer")
		text, ok := v.Text()
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); ok && err == nil && n >= 0 {
			return wire.Raw(strconv.FormatInt(n, 10))
		}
		return removed
	}
}

// checkEnum returns the check of an enumeration.
func checkEnum(section string, values ...string) func(*walk, wire.Value) wire.Raw {
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

// checkMIMEType checks an optional MIME type (RFC 6838, section 4.2).
func checkMIMEType(w *walk, v wire.Value) wire.Raw {
	text, ok := v.Text()
	if ok && isMIMEType(text) {
		return nil
	}
	if !ok {
		w.report(InvalidMIMEType, secResource, true, "must be a string such as text/plain, not "+v.KindName())
		return removed
	}
	w.report(InvalidMIMEType, secResource, true, fmt.Sprintf("%q is not a MIME type; it must look like text/plain", plaintext.Clip(text, 64)))
	if text = strings.TrimSpace(text); isMIMEType(text) {
		return wire.String(text)
	}
	return removed
}

// isMIMEType reports whether a text is a MIME type, with or without parameters.
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

// checkURI checks a URI (RFC 3986). Violations are not repaired: clients accept any string.
func checkURI(w *walk, v wire.Value) wire.Raw {
	text, ok := v.Text()
	if !ok {
		return w.stringOrQuoted(v, secResource)
	}
	if !isURI(text) {
		// The message does not contain the URI, which may be confidential.
		w.report(InvalidURI, secResource, false, "is not a URI; it must begin with a scheme such as file: and contain no white space")
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

// checkMeta checks _meta and its keys. Before 2025-06-18 keys had no defined form.
func checkMeta(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '{' {
		w.report(InvalidMeta, secMeta, true, "must be an object, not "+v.KindName())
		return removed
	}
	if w.rev != "" && !w.rev.AtLeast(wire.Rev20250618) {
		return nil
	}
	for m := range v.Members() {
		if key := m.Key.Str(); !isMetaKey(key) {
			w.reportMember(key, InvalidMeta, secMeta, false, "is not a valid key of _meta: it must be letters, digits and -_. after an optional prefix such as example.com/")
		}
	}
	return nil
}

// isMetaKey reports whether a key has the form of a _meta key: an optional prefix of
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

// isMetaName reports whether s begins and ends with a letter or digit and has only those
// and the characters of inner between. The empty string is a name.
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
