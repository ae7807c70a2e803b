package hostconfig

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// unreadable returns an error at the first place where a JSON file has what its host does not read. Places after a mistake that
// every parser finds do not matter.
func (h Host) unreadable(data []byte) error {
	refuse := func(at int, what string) error {
		before := data[:at]
		line := bytes.LastIndexByte(before, '\n') + 1
		return &SyntaxError{
			1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[line:]),
			fmt.Sprintf("%s cannot read the file with %s here: remove it and run the command again", h.Title, what),
		}
	}
	i := 0
	if bytes.HasPrefix(data, byteOrderMark) {
		if !h.json.byteOrderMark {
			return refuse(0, "a byte order mark (an invisible character)")
		}
		i = len(byteOrderMark)
	}
	comma := -1 // the last comma that only space and comments follow
	for ; i < len(data); i++ {
		end := []byte(nil)
		switch rest := data[i:]; {
		case bytes.HasPrefix(rest, []byte("//")):
			end = []byte("\n")
		case bytes.HasPrefix(rest, []byte("/*")):
			end = []byte("*/")
		}
		switch c := data[i]; {
		case end != nil && !h.json.comments:
			return refuse(i, "a comment")
		case end != nil:
			n := bytes.Index(data[i+2:], end)
			if n < 0 {
				return nil
			}
			i += 1 + n + len(end)
		case c == '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			comma = -1
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0 && !h.json.trailingCommas:
			return refuse(comma, fmt.Sprintf("a comma before %c", c))
		case !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)):
			comma = -1
		}
	}
	return nil
}
