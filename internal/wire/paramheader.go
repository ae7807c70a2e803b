package wire

import (
	"bytes"
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
)

// HeaderParam is one parameter of a tool that requests mirror into a header, as an
// x-mcp-header annotation in the tool's inputSchema demands (2026-07-28,
// basic/transports/streamable-http, "Custom Headers from Tool Parameters"). It
// is immutable.
type HeaderParam struct {
	Header string   // the whole header name in canonical form: Mcp-Param-Region
	Path   []string // keys that lead to the value, beginning in arguments; never empty
}

const headerAnnotation = "x-mcp-header"

// MayHaveHeaderParams reports whether the text of a tool, or of its inputSchema, may have
// annotations of [HeaderParams]. Almost none has: it costs less to look for the word. An escaped
// key is found too.
func MayHaveHeaderParams(text Raw) bool {
	return bytes.Contains(text, []byte(headerAnnotation)) || bytes.IndexByte(text, '\\') >= 0
}

// HeaderParams returns the parameters of a tool that are mirrored into headers, in the order
// of the schema, nil for nearly every tool. inputSchema must be valid JSON or nil. The error
// says which annotation violates which constraint. A tool with such an error must not be
// offered over streamable HTTP.
func HeaderParams(inputSchema Raw) ([]HeaderParam, error) {
	if !MayHaveHeaderParams(inputSchema) {
		return nil, nil
	}
	var s headerScan
	if err := s.schema(ValueOf(inputSchema), nil, true); err != nil {
		return nil, err
	}
	return s.found, nil
}

// headerScan walks a schema and collects its annotations.
type headerScan struct{ found []HeaderParam }

// schema visits one schema. path leads to it from the root; reachable says that it leads
// through properties only.
func (s *headerScan) schema(v Value, path []string, reachable bool) error {
	for m := range v.Members() {
		var err error
		switch m.Key.Str() {
		case headerAnnotation:
			err = s.annotation(v, m.Value, path, reachable)
		case "properties":
			for p := range m.Value.Members() {
				below := append(path[:len(path):len(path)], p.Key.Str())
				if err = s.schema(p.Value, below, reachable); err != nil {
					break
				}
			}
		case "$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies":
			for p := range m.Value.Members() {
				if err = s.schema(p.Value, nil, false); err != nil {
					break
				}
			}
		case "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains",
			"additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema",
			"allOf", "anyOf", "oneOf", "not", "if", "then", "else":
			if err = s.schema(m.Value, nil, false); err != nil {
				break
			}
			for el := range m.Value.Elements() {
				if err = s.schema(el, nil, false); err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// annotation checks one annotation of the schema v against the constraints of
// the specification.
func (s *headerScan) annotation(v, value Value, path []string, reachable bool) error {
	name, ok := value.Text()
	switch {
	case !reachable || len(path) == 0:
		return fmt.Errorf("%s %s is not reachable through properties only", headerAnnotation, value.Raw())
	case !ok:
		return fmt.Errorf("%s of %q must be a string", headerAnnotation, strings.Join(path, "."))
	case !isToken(name):
		return fmt.Errorf("%s %q of %q is not an HTTP field name", headerAnnotation, name, strings.Join(path, "."))
	}
	switch kind := v.Get("type"); kind.Str() {
	case "string", "integer", "boolean":
	default:
		return fmt.Errorf("%s %q of %q: the type must be string, integer or boolean", headerAnnotation, name, strings.Join(path, "."))
	}
	header := textproto.CanonicalMIMEHeaderKey(HeaderParamPrefix + name)
	for _, p := range s.found {
		if strings.EqualFold(p.Header, header) {
			return fmt.Errorf("%s %q occurs twice: at %q and at %q", headerAnnotation, name, strings.Join(p.Path, "."), strings.Join(path, "."))
		}
	}
	s.found = append(s.found, HeaderParam{Header: header, Path: path})
	return nil
}

// Value returns the value of the header for a call with these arguments, valid JSON or nil,
// and whether the header is sent. It is not sent for a value that is absent, null, an object
// or an array.
func (p HeaderParam) Value(arguments Raw) (string, bool) {
	text, ok := headerText(ValueOf(arguments).Get(p.Path...))
	if ok && text == "" {
		// Many stacks cannot tell an empty header from an absent one, so the empty string is
		// sent in the encoded form.
		return headerOpen + headerClose, true
	}
	return EncodeHeader(text), ok
}

// headerText converts a primitive to the decoded text of its header.
func headerText(v Value) (string, bool) {
	switch v.Kind() {
	case '"':
		return v.Text()
	case 't', 'f':
		return string(v.Raw()), true
	case '0':
		if n, ok := v.Int(); ok {
			return strconv.FormatInt(n, 10), true
		}
		return string(v.Raw()), true
	default:
		return "", false
	}
}

// CheckHeaderParams compares the headers of a received tools/call with its arguments, valid
// JSON or nil. values returns the values of the header with a canonical name. The error says
// what does not match; it is sent with CodeHeaderMismatch.
func CheckHeaderParams(params []HeaderParam, arguments Raw, values func(header string) []string) error {
	for _, p := range params {
		body := ValueOf(arguments).Get(p.Path...)
		got := values(p.Header)
		want, due := headerText(body)
		switch {
		case !due && body.Exists() && body.Kind() != 'n':
			continue // not a primitive: the validation of the arguments refuses it
		case !due && len(got) > 0:
			return fmt.Errorf("unexpected %s header: the parameter %q is absent or null", p.Header, strings.Join(p.Path, "."))
		case !due:
			continue
		case len(got) == 0:
			return fmt.Errorf("missing %s header for the parameter %q", p.Header, strings.Join(p.Path, "."))
		case len(got) > 1:
			return fmt.Errorf("%s header occurs %d times", p.Header, len(got))
		}
		text, ok := DecodeHeader(got[0])
		if !ok {
			return fmt.Errorf("%s header is malformed", p.Header)
		}
		if text != want && !(body.Kind() == '0' && sameInteger(text, body)) {
			return fmt.Errorf("%s header does not match the parameter %q", p.Header, strings.Join(p.Path, "."))
		}
	}
	return nil
}

// sameInteger reports whether text is a JSON number with the same integer value as v: 42.0
// and 42 are equal.
func sameInteger(text string, v Value) bool {
	doc := Raw(text)
	if Check(doc, Limits{Depth: 1}, Strict) != nil {
		return false
	}
	a, ok := ValueOf(doc).Int()
	b, ok2 := v.Int()
	return ok && ok2 && a == b
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
