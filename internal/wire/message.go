package wire

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// Message is one JSON-RPC message. Its raw members are slices of the bytes
// that it was parsed from.
//
//	request       ID, Method, Params?
//	notification      Method, Params?
//	result        ID, Result
//	error         ID?, Error
type Message struct {
	ID     ID
	Method string
	Params Raw // an object, nil when absent
	Result Raw // of any type, nil when absent
	Error  *Error

	// Extra is the text of the members of the envelope that JSON-RPC does not define,
	// without braces, "" for nearly every message. The gateway forwards them.
	Extra string
	// Long is about Params or Result, whichever is set. It is nil without long strings.
	Long *Long
	// Buffer is the memory of Result if nothing else is in it and it can be released, else
	// nil.
	Buffer *Buffer
	// DeepDuplicates says that an object below the envelope has two members of
	// one name. Only messages from upstreams can have it.
	DeepDuplicates bool
}

// IsRequest reports whether m is a request, which needs an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && !m.ID.IsZero() }

// IsNotification reports whether m is a notification.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID.IsZero() }

// IsResponse reports whether m is a result or an error.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Parse reads a message of a client in the strictest way. It makes the strict [Check], and
// refuses members of the envelope and of params that differ only in case from members that
// the gateway reads. The error is an *Error with CodeParse or CodeInvalidRequest. With an
// error, the Message holds the id if there is a usable one; for text that is not JSON an
// [EnvelopeScanner] finds it.
func Parse(data []byte, lim Limits) (Message, error) {
	ok, long := accepts(data, lim.depth(), Strict)
	if !ok {
		if err := checkSlowly(data, lim, Strict); err != nil {
			return Message{ID: ScanEnvelope(data).RequestID()}, Errorf(CodeParse, "parse error: %s", err)
		}
	}
	m, err := envelope(data, &long)
	if err != nil {
		return m, err
	}
	name, ref := caseVariant(m.Long.ValueOf(m.Params), readParams, "ref")
	if name != "" {
		return m, Errorf(CodeInvalidRequest, "invalid request: params has a member %q, which differs from a known one only in case", name)
	}
	if name, _ := caseVariant(ref, readRef, ""); name != "" {
		return m, Errorf(CodeInvalidRequest, "invalid request: params.ref has a member %q, which differs from a known one only in case", name)
	}
	return m, nil
}

// ParseUpstream reads a message of an upstream. The same rules hold for the envelope as in
// Parse. Duplicate keys below it are reported in DeepDuplicates; case variants below it
// pass. With an error, the Message holds the id if there is a usable one.
func ParseUpstream(data []byte, lim Limits) (Message, error) {
	duplicates := false
	ok, long := accepts(data, lim.depth(), Strict)
	if !ok && checkSlowly(data, lim, Strict) != nil {
		if err := Check(data, lim, Lenient); err != nil {
			return Message{ID: ScanEnvelope(data).ResponseID()}, Errorf(CodeParse, "parse error: %s", err)
		}
		duplicates = true
	}
	m, err := envelope(data, &long)
	if err != nil || !duplicates {
		return m, err
	}
	if name, ok := duplicateKey(ValueOf(data)); ok {
		if name == "id" {
			m.ID = ID{} // it is not known which one is meant
		}
		return m, Errorf(CodeInvalidRequest, "invalid request: the member %q stands twice", name)
	}
	m.DeepDuplicates = true
	return m, nil
}

// Members that the gateway reads. A client must not send case variants of them. None of
// them is below params.arguments, schemas or _meta.
var (
	readEnvelope = []string{"jsonrpc", "id", "method", "params", "result", "error"}
	readParams   = []string{
		"name", "uri", "arguments", "cursor", "ref", "level", "_meta", "taskId", "requestId", "progressToken",
		"inputResponses", "requestState", "protocolVersion", "capabilities", "clientInfo", "notifications",
	}
	readRef = []string{"type", "name", "uri"} // of params.ref, which completion/complete has
)

// maxID bounds the text of an id, because every answer repeats it and the gateway keeps it
// while the request runs.
const maxID = 4 << 10

// envelope reads the members of checked JSON. long are its long strings.
func envelope(data []byte, long *longSpans) (Message, error) {
	var m Message
	found := long.of(data)
	root := found.ValueOf(data)
	if root.Kind() != '{' {
		what := "the message is not an object"
		if root.Kind() == '[' {
			what = "batches are not allowed here"
		}
		return m, invalidRequest("%s", what)
	}
	var version, id, method, params, result, failure Value
	var extra []byte
	for mb := range root.Members() {
		var slot *Value
		switch {
		case mb.Is("jsonrpc"):
			slot = &version
		case mb.Is("id"):
			slot = &id
		case mb.Is("method"):
			slot = &method
		case mb.Is("params"):
			slot = &params
		case mb.Is("result"):
			slot = &result
		case mb.Is("error"):
			slot = &failure
		default:
			if len(extra) > 0 {
				extra = append(extra, ',')
			}
			extra = append(extra, data[mb.Key.start:mb.Value.end]...)
			continue
		}
		*slot = mb.Value
	}
	m.Extra = string(extra)
	if err := m.readID(id, failure.Exists()); err != nil {
		return m, err
	}
	if m.Extra != "" {
		if name, _ := caseVariant(root, readEnvelope, ""); name != "" {
			return m, invalidRequest("the member %q differs from a known one only in case", name)
		}
	}
	if !version.IsString("2.0") {
		return m, invalidRequest(`"jsonrpc" must be "2.0"`)
	}
	var err error
	body := result
	if method.Exists() {
		body = params
		err = m.readCall(method, params, result.Exists() || failure.Exists())
	} else {
		err = m.readResponse(params, result, failure)
	}
	m.Long = found.within(body)
	return m, err
}

// invalidRequest is the error of a message whose envelope violates JSON-RPC.
func invalidRequest(format string, args ...any) error {
	return Errorf(CodeInvalidRequest, "invalid request: "+format, args...)
}

// readID reads the id of a message, which may be an error.
func (m *Message) readID(id Value, isError bool) error {
	switch id.Kind() {
	case '"', '0':
		if len(id.Raw()) > maxID {
			return invalidRequest("the id is longer than %d bytes", maxID)
		}
		m.ID = ID{string(id.Raw())}
	case 0:
	case 'n':
		if !isError { // JSON-RPC answers a message that it could not read with a null id
			return invalidRequest("the id is null; it must be a string or a number")
		}
	default:
		return invalidRequest("the id must be a string or a number")
	}
	return nil
}

// readCall reads a request or a notification. answers says that the message also has a
// result or an error.
func (m *Message) readCall(method, params Value, answers bool) error {
	name, ok := method.Text()
	switch {
	case !ok || name == "":
		return invalidRequest("the method must be a string that is not empty")
	case answers:
		return invalidRequest("a message with a method has no result and no error")
	case params.Exists() && params.Kind() != '{':
		return invalidRequest("params must be an object")
	}
	m.Method, m.Params = name, params.Raw()
	return nil
}

// readResponse reads a result or an error.
func (m *Message) readResponse(params, result, failure Value) error {
	switch {
	case params.Exists():
		return invalidRequest("params without a method")
	case result.Exists() == failure.Exists():
		return invalidRequest("a message has either a method, a result or an error")
	case result.Exists():
		if m.ID.IsZero() {
			return invalidRequest("a result needs an id")
		}
		m.Result = result.Raw()
		return nil
	}
	m.Error = errorOf(failure)
	if m.Error == nil {
		return invalidRequest("the error must be an object with an integer code and a message")
	}
	m.Error.Extra = m.Extra
	return nil
}

// errorOf reads an error object. It returns nil for a value that is not one.
func errorOf(v Value) *Error {
	code, ok := v.Get("code").Int()
	message, ok2 := v.Get("message").Text()
	if !ok || !ok2 {
		return nil
	}
	return &Error{Code: code, Message: message, Data: v.Get("data").Raw(), Raw: v.Raw()}
}

// caseVariant returns the first key of obj that equals one of known under case folding but
// not exactly, "" for none. The folding is that of Unicode, as in Go's encoding/json, so that
// the long s and the Kelvin sign count too. In the same walk it finds the member get.
func caseVariant(obj Value, known []string, get string) (key string, got Value) {
	for m := range obj.Members() {
		key := m.Key.unquoted()
		switch i := slices.IndexFunc(known, func(k string) bool { return equalFold(key, k) }); {
		case i < 0:
		case string(key) != known[i]:
			return string(key), Value{}
		case known[i] == get:
			got = m.Value
		}
	}
	return "", got
}

// equalFold is bytes.EqualFold for an ASCII name. The length and the first byte already rule out
// nearly every other text.
func equalFold(text []byte, name string) bool {
	if len(text) < len(name) || text[0] < utf8.RuneSelf && text[0]|0x20 != name[0]|0x20 {
		return false // no character that folds to one of ASCII is shorter
	}
	return bytes.EqualFold(text, []byte(name))
}

// duplicateKey returns a key that occurs twice in obj, and whether there is one.
func duplicateKey(obj Value) (string, bool) {
	seen := make(map[string]bool)
	for m := range obj.Members() {
		name := m.Key.Str()
		if seen[name] {
			return name, true
		}
		seen[name] = true
	}
	return "", false
}

// Split returns the messages of a batch, and whether data is a batch: a JSON array. Of a
// batch with more than most messages it returns the first most+1, so that short text cannot
// become a long slice. Data must have passed [Check].
func Split(data []byte, most int) ([]Raw, bool) {
	root := ValueOf(data)
	if root.Kind() != '[' {
		return nil, false
	}
	var out []Raw
	for el := range root.Elements() {
		if out = append(out, el.Raw()); len(out) > most {
			break
		}
	}
	return out, true
}

// Append appends the message as JSON.
func (m *Message) Append(dst []byte) []byte {
	if size := len(m.Params) + len(m.Result); size > cap(dst)-len(dst) {
		// Grow once: appending would grow again for the last brace and copy everything.
		dst = slices.Grow(dst, size+len(m.ID.text)+len(m.Method)+len(m.Extra)+64)
	}
	dst, _ = m.append(dst, m.Params)
	return dst
}

// AppendAround is Append, but leaves out the text of the params, which must not be nil:
// it belongs before out[cut]. So large params are not copied.
func (m *Message) AppendAround(dst []byte) (out []byte, cut int) { return m.append(dst, Raw{}) }

func (m *Message) append(dst []byte, params Raw) (out []byte, cut int) {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if !m.ID.IsZero() || m.Error != nil {
		dst = append(dst, `,"id":`...)
		dst = m.ID.Append(dst)
	}
	if m.Method != "" {
		dst = append(dst, `,"method":`...)
		dst = AppendString(dst, m.Method)
	}
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	cut = len(dst)
	if m.Result != nil {
		dst = append(dst, `,"result":`...)
		dst = append(dst, m.Result...)
	}
	if m.Error != nil {
		dst = append(dst, `,"error":`...)
		dst = m.Error.Append(dst)
	}
	if m.Extra != "" {
		dst = append(dst, ',')
		dst = append(dst, m.Extra...)
	}
	return append(dst, '}'), cut
}
