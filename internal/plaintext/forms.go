package plaintext

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Forms returns the forms in which a program may print a text: as it is, in JSON as Go, JavaScript
// and Python write it, also within another JSON string, in quotes of Go, and in URLs. Each is
// there once, the longest first.
func Forms(text string) []string {
	forms := []string{text, unquote(strconv.Quote(text)), url.QueryEscape(text), url.PathEscape(text)}
	for _, once := range inJSON(text) {
		forms = append(append(forms, once), inJSON(once)...)
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(forms)
}

// inJSON returns the forms of a text within a JSON string.
func inJSON(text string) []string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= utf8.RuneSelf || strings.ContainsRune("\"\\<>&", r) }) {
		return []string{text}
	}
	ofGo, _ := json.Marshal(text) // a string always marshals
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text)
	ofJavaScript := strings.TrimSuffix(plain.String(), "\n")
	var ofPython strings.Builder // only ASCII
	for _, r := range ofJavaScript {
		switch high, low := utf16.EncodeRune(r); {
		case r < utf8.RuneSelf:
			ofPython.WriteRune(r)
		case high == utf8.RuneError:
			fmt.Fprintf(&ofPython, "\\u%04x", r)
		default:
			fmt.Fprintf(&ofPython, "\\u%04x\\u%04x", high, low)
		}
	}
	return []string{unquote(string(ofGo)), unquote(ofJavaScript), unquote(ofPython.String())}
}

// unquote removes the quotes around a text and keeps its escapes.
func unquote(quoted string) string { return quoted[1 : len(quoted)-1] }
