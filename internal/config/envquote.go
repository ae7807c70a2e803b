package config

import (
	"errors"
	"regexp"
	"strings"
)

// quotedText is a value in quotes, in parts that are taken as they are and parts in which ${NAME} refers to a variable.
type quotedText []struct {
	text string
	refs bool
}

var (
	errNotQuoted = errors.New("is not a value in quotes")
	errUnclosed  = errors.New("begins with a quotation mark, but the closing one at its end is missing; add it, or write the other kind of quotation marks around the value")
)

// quotedValue parses a value that begins with a quote, as a shell does: '…' has no escapes, "…" has \n, \", \\, \$ and \`,
// and parts without a space between them are one value. The value may go on in the rest of the file; lines is the number
// of further lines that it takes. The error is errUnclosed or errNotQuoted.
func quotedValue(value, rest string) (parsed quotedText, lines int, err error) {
	if value == "" || value[0] != '\'' && value[0] != '"' {
		return nil, 0, errNotQuoted
	}
	all := value + "\n" + rest
	add := func(text string, refs bool) {
		parsed = append(parsed, struct {
			text string
			refs bool
		}{text, refs})
	}
	i := 0
	for i < len(all) && !strings.ContainsRune(" \t\r\n", rune(all[i])) {
		switch c := all[i]; c {
		case '\'':
			end := strings.IndexByte(all[i+1:], '\'')
			if end < 0 {
				return nil, 0, errUnclosed
			}
			add(all[i+1:i+1+end], false)
			i += end + 2
		case '"':
			length := inDoubleQuotes(all[i+1:], add)
			if length < 0 {
				return nil, 0, errUnclosed
			}
			i += length + 2
		case '\\':
			if i+1 == len(all) {
				return nil, 0, errNotQuoted
			}
			add(all[i+1:i+2], false)
			i += 2
		default:
			return nil, 0, errNotQuoted
		}
	}
	after, _, _ := strings.Cut(all[i:], "\n")
	if after = strings.TrimSpace(after); after != "" && after[0] != '#' {
		return nil, 0, errNotQuoted
	}
	return parsed, strings.Count(all[:i], "\n"), nil
}

// inDoubleQuotes adds the parts of a text up to its closing quote. It returns the length of the text, or -1 if there is no
// such quote.
func inDoubleQuotes(text string, add func(text string, refs bool)) int {
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			add(text[start:i], true)
			return i
		case '\\':
			if i+1 == len(text) {
				return -1
			}
			if escaped := strings.IndexByte("n\"\\$`", text[i+1]); escaped >= 0 {
				add(text[start:i], true)
				add("\n\"\\$`"[escaped:escaped+1], false)
				start = i + 2
			}
			i++
		}
	}
	return -1
}

var envRef = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

// expand returns the value, and the variables that it lacks. Without lookup, references stay as they are. An error of lookup
// is an unsetError, with a text for the value.
func (q quotedText) expand(lookup func(string) (string, error)) (value string, missing unsetError) {
	var b strings.Builder
	for _, part := range q {
		if !part.refs || lookup == nil {
			b.WriteString(part.text)
			continue
		}
		b.WriteString(envRef.ReplaceAllStringFunc(part.text, func(ref string) string {
			m := envRef.FindStringSubmatch(ref)
			found, err := lookup(m[1])
			switch lacks, _ := errors.AsType[unsetError](err); {
			case m[2] != "" && (found == "" || lacks != nil):
				return m[2][2:]
			case lacks != nil:
				missing = append(missing, lacks...)
			}
			return found
		}))
	}
	return b.String(), missing
}
