package wire

import "bytes"

// Glimpse finds out whose message it is that cannot be read: one over the size
// limit, or one with a fault in it. It is an io.Writer of the text, in pieces of
// any size, and keeps next to nothing of it. The zero Glimpse is ready for use;
// one belongs to one goroutine.
//
// It does not guess. Only members of the message itself count, in text that was
// well-formed up to the end of them; one that stands twice says nothing.
type Glimpse struct {
	at     glimpseState
	back   glimpseState // after the string that is being read
	stack  []byte       // the brackets that are open, the message's own the first
	escape bool         // the byte before was a backslash in a string

	token []byte // what was collected of a key, or of a value of the message
	key   string // the key of the member that is being read, "" for one of no interest

	id             string
	ids            int
	method, answer bool
}

type glimpseState uint8

const (
	glimpseStart glimpseState = iota // before the message
	glimpseKey                       // before a key, or the end of the message
	glimpseColon
	glimpseValue
	glimpseScalar // in a number or a word
	glimpseString
	glimpseNested // in a value that is an object or an array
	glimpseAfter  // after a member
	glimpseEnd    // the message is over, or malformed: nothing counts from here on
)

// maxToken bounds what is collected of one token, of which an id is the longest.
const maxToken = maxID

// Request returns the id of the request that the message is, the zero ID when
// it is none or that cannot be told.
func (g *Glimpse) Request() ID { return g.only(g.method && !g.answer) }

// Response returns the id of the response that the message is, likewise.
func (g *Glimpse) Response() ID { return g.only(g.answer && !g.method) }

func (g *Glimpse) only(is bool) ID {
	if !is || g.ids != 1 {
		return ID{}
	}
	return ID{g.id}
}

// GlimpseOf returns what can be told of a text. A byte order mark before it is
// passed over.
func GlimpseOf(data []byte) *Glimpse {
	g := new(Glimpse)
	g.Write(bytes.TrimPrefix(data, bom))
	return g
}

// Write takes more of the text in. It never fails.
func (g *Glimpse) Write(b []byte) (int, error) {
	for i := 0; i < len(b) && g.at != glimpseEnd; {
		if i += g.skip(b[i:]); i < len(b) && g.step(b[i]) {
			i++
		}
	}
	return len(b), nil
}

// skip returns how many bytes come first that change nothing: space, and text
// within a value.
func (g *Glimpse) skip(b []byte) (n int) {
	switch {
	case g.at == glimpseString && g.back == glimpseNested && !g.escape:
		for n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\' {
			n++
		}
	case g.at != glimpseString && g.at != glimpseScalar:
		for n < len(b) && isSpace(b[n]) {
			n++
		}
	}
	return n
}

// step looks at one byte. It reports false when the byte is to be looked at once
// more, in the state that came of it.
func (g *Glimpse) step(c byte) bool {
	switch g.at {
	case glimpseString:
		g.inString(c)
		return true
	case glimpseScalar:
		if isSpace(c) || c == ',' || c == '}' {
			g.member()
			g.at = glimpseAfter
			return false
		}
		g.collect(c)
		return true
	case glimpseNested:
		g.nested(c)
		return true
	}
	if isSpace(c) {
		return true
	}
	switch next := g.at; {
	case next == glimpseStart && c == '{':
		g.at, g.stack = glimpseKey, append(g.stack, c)
	case next == glimpseKey && c == '"':
		g.begin(c, glimpseColon)
	case next == glimpseColon && c == ':':
		g.at = glimpseValue
	case next == glimpseValue && c == '"':
		g.begin(c, glimpseAfter)
	case next == glimpseValue && (c == '{' || c == '['):
		g.token, g.at, g.stack = g.token[:0], glimpseNested, append(g.stack, c)
	case next == glimpseValue && isJSONByte(c):
		g.token, g.at = append(g.token[:0], c), glimpseScalar
	case next == glimpseAfter && c == ',':
		g.at = glimpseKey
	default:
		g.at = glimpseEnd
	}
	return true
}

// begin begins a string of the message's own, after which comes back.
func (g *Glimpse) begin(c byte, back glimpseState) {
	g.token, g.at, g.back = append(g.token[:0], c), glimpseString, back
}

func (g *Glimpse) collect(c byte) {
	if len(g.token) <= maxToken { // one more than may be, so that it shows
		g.token = append(g.token, c)
	}
}

func (g *Glimpse) inString(c byte) {
	if g.back != glimpseNested {
		g.collect(c)
	}
	switch {
	case c < ' ':
		g.at = glimpseEnd
	case g.escape:
		g.escape = false
	case c == '\\':
		g.escape = true
	case c == '"':
		g.at = g.back
		switch g.back {
		case glimpseColon:
			g.named()
		case glimpseAfter:
			g.member()
		}
	}
}

// nested follows a value to its end.
func (g *Glimpse) nested(c byte) {
	switch c {
	case '"':
		g.at, g.back = glimpseString, glimpseNested
	case '{', '[':
		if len(g.stack) > maxDepth {
			g.at = glimpseEnd
			return
		}
		g.stack = append(g.stack, c)
	case '}', ']':
		last := len(g.stack) - 1
		if g.stack[last] != c-2 { // in ASCII the brackets of a pair are two apart
			g.at = glimpseEnd
			return
		}
		if g.stack = g.stack[:last]; last == 1 {
			g.member()
			g.at = glimpseAfter
		}
	default:
		if !isSpace(c) && c != ',' && c != ':' && !isJSONByte(c) {
			g.at = glimpseEnd
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

// named takes the key of a member in.
func (g *Glimpse) named() {
	g.key = ""
	if len(g.token) > maxToken {
		return
	}
	if Check(g.token, Limits{}, Strict) != nil {
		g.at = glimpseEnd
		return
	}
	switch name := ValueOf(g.token).Str(); name {
	case "id", "method", "result", "error":
		g.key = name
	}
}

// member takes a member in whose value is complete. The token is the value's
// text, nothing for an object or an array.
func (g *Glimpse) member() {
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
