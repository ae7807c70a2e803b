package wire

import "bytes"

// EnvelopeScanner finds the id of a message that cannot be parsed, because it is over the
// size limit or malformed, so that its request can be answered. It is an io.Writer of the
// text, in pieces of any size, and keeps almost nothing of it. The zero EnvelopeScanner is
// ready for use. It belongs to one goroutine.
//
// The scanner does not guess. It reads only members of the envelope, in text that is
// well-formed up to their end, and ignores an id that occurs twice.
type EnvelopeScanner struct {
	at     scanState
	back   scanState // the state after the current string
	stack  []byte    // the open brackets, that of the message first
	escape bool      // the byte before was a backslash in a string

	token []byte // the collected part of a key, or of a value of the envelope
	key   string // the key of the current member, "" for one that is not needed

	id             string
	ids            int
	method, answer bool
}

type scanState uint8

const (
	scanStart scanState = iota // before the message
	scanKey                    // before a key, or the end of the message
	scanColon
	scanValue
	scanScalar // in a number or a word
	scanString
	scanNested // in a value that is an object or an array
	scanAfter  // after a member
	scanEnd    // the message is over or malformed; the rest is ignored
)

// maxToken bounds the collected part of one token. An id is the longest that is needed.
const maxToken = maxID

// RequestID returns the id of the message if it is a request, else the zero ID, also if
// the scanner cannot tell.
func (g *EnvelopeScanner) RequestID() ID { return g.only(g.method && !g.answer) }

// ResponseID returns the id of the message if it is a response, likewise.
func (g *EnvelopeScanner) ResponseID() ID { return g.only(g.answer && !g.method) }

func (g *EnvelopeScanner) only(is bool) ID {
	if !is || g.ids != 1 {
		return ID{}
	}
	return ID{g.id}
}

// ScanEnvelope scans a text. It ignores a byte order mark at the beginning.
func ScanEnvelope(data []byte) *EnvelopeScanner {
	g := new(EnvelopeScanner)
	g.Write(bytes.TrimPrefix(data, bom))
	return g
}

// Write scans more of the text. It never fails.
func (g *EnvelopeScanner) Write(b []byte) (int, error) {
	for i := 0; i < len(b) && g.at != scanEnd; {
		if i += g.skip(b[i:]); i < len(b) && g.step(b[i]) {
			i++
		}
	}
	return len(b), nil
}

// skip returns the number of leading bytes that change nothing: space, and text within a
// value.
func (g *EnvelopeScanner) skip(b []byte) (n int) {
	switch {
	case g.at == scanString && g.back == scanNested && !g.escape:
		for n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\' {
			n++
		}
	case g.at != scanString && g.at != scanScalar:
		for n < len(b) && isSpace(b[n]) {
			n++
		}
	}
	return n
}

// step reads one byte. It reports false when the byte has to be read again in the new
// state.
func (g *EnvelopeScanner) step(c byte) bool {
	switch g.at {
	case scanString:
		g.inString(c)
		return true
	case scanScalar:
		if isSpace(c) || c == ',' || c == '}' {
			g.member()
			g.at = scanAfter
			return false
		}
		g.collect(c)
		return true
	case scanNested:
		g.nested(c)
		return true
	}
	if isSpace(c) {
		return true
	}
	switch next := g.at; {
	case next == scanStart && c == '{':
		g.at, g.stack = scanKey, append(g.stack, c)
	case next == scanKey && c == '"':
		g.begin(c, scanColon)
	case next == scanColon && c == ':':
		g.at = scanValue
	case next == scanValue && c == '"':
		g.begin(c, scanAfter)
	case next == scanValue && (c == '{' || c == '['):
		g.token, g.at, g.stack = g.token[:0], scanNested, append(g.stack, c)
	case next == scanValue && isJSONByte(c):
		g.token, g.at = append(g.token[:0], c), scanScalar
	case next == scanAfter && c == ',':
		g.at = scanKey
	default:
		g.at = scanEnd
	}
	return true
}

// begin begins a string of the envelope. The state after it is back.
func (g *EnvelopeScanner) begin(c byte, back scanState) {
	g.token, g.at, g.back = append(g.token[:0], c), scanString, back
}

func (g *EnvelopeScanner) collect(c byte) {
	if len(g.token) <= maxToken { // one byte too many is kept, so that the length shows it
		g.token = append(g.token, c)
	}
}

func (g *EnvelopeScanner) inString(c byte) {
	if g.back != scanNested {
		g.collect(c)
	}
	switch {
	case c < ' ':
		g.at = scanEnd
	case g.escape:
		g.escape = false
	case c == '\\':
		g.escape = true
	case c == '"':
		g.at = g.back
		switch g.back {
		case scanColon:
			g.named()
		case scanAfter:
			g.member()
		}
	}
}

// nested follows a value to its end.
func (g *EnvelopeScanner) nested(c byte) {
	switch c {
	case '"':
		g.at, g.back = scanString, scanNested
	case '{', '[':
		if len(g.stack) > maxDepth {
			g.at = scanEnd
			return
		}
		g.stack = append(g.stack, c)
	case '}', ']':
		last := len(g.stack) - 1
		if g.stack[last] != c-2 { // in ASCII the brackets of a pair are two apart
			g.at = scanEnd
			return
		}
		if g.stack = g.stack[:last]; last == 1 {
			g.member()
			g.at = scanAfter
		}
	default:
		if !isSpace(c) && c != ',' && c != ':' && !isJSONByte(c) {
			g.at = scanEnd
		}
	}
}

// isJSONByte reports whether c may stand in a number, or in true, false or null.
func isJSONByte(c byte) bool {
	switch c {
	case '+', '-', '.', 'E', 't', 'r', 'u', 'e', 'f', 'a', 'l', 's', 'n':
		return true
	}
	return c >= '0' && c <= '9'
}

// named keeps the key of a member.
func (g *EnvelopeScanner) named() {
	g.key = ""
	if len(g.token) > maxToken {
		return
	}
	if Check(g.token, Limits{}, Strict) != nil {
		g.at = scanEnd
		return
	}
	switch name := ValueOf(g.token).Str(); name {
	case "id", "method", "result", "error":
		g.key = name
	}
}

// member keeps a member whose value is complete. The token is the text of the value, empty
// for an object or an array.
func (g *EnvelopeScanner) member() {
	switch g.key {
	case "id":
		g.ids++
		if len(g.token) > maxToken || Check(g.token, Limits{}, Strict) != nil {
			g.id = ""
			return
		}
		switch id := ValueOf(g.token); id.Kind() {
		case '"', '0':
			g.id = string(id.Raw())
		}
	case "method":
		g.method = len(g.token) > len(`""`) && g.token[0] == '"'
	case "result", "error":
		g.answer = true
	}
}
