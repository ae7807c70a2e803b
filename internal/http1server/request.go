package http1server

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
)

// request is one request with its answer, in a single allocation.
type request struct {
	http.Request
	url      url.URL
	scope    call.Scope // context of the request
	body     body
	response response
	values   [usualFields]string
}

const (
	// usualFields is how many header fields a request has in most cases.
	usualFields = 12
	// maxFields bounds the header fields of a request that is served here.
	maxFields = 100
)

// methods are the methods that are served here, each with the space after it.
var methods = [...]string{"POST ", "GET ", "DELETE "}

// knownMethod reports whether a request that begins so may be served here.
func knownMethod(begin []byte) bool {
	for _, m := range methods {
		if n := min(len(m), len(begin)); string(begin[:n]) == m[:n] {
			return true
		}
	}
	return false
}

// newRequest returns the request with this head, which includes its final empty line. The
// only error is errUnusual.
func newRequest(c *conn, head []byte) (*request, error) {
	r := &request{}
	target, err := r.parse(string(head))
	if err != nil {
		return nil, err
	}
	r.url.Path = target
	r.scope.Begin(&c.scope)
	fields := r.Request
	fields.URL, fields.RequestURI = &r.url, target
	fields.Proto, fields.ProtoMajor, fields.ProtoMinor = "HTTP/1.1", 1, 1
	fields.RemoteAddr, fields.TLS, fields.Close, fields.Body = c.remote, c.tls, r.response.last, http.NoBody
	if fields.ContentLength > 0 {
		r.body = body{r: r, c: c, left: fields.ContentLength}
		fields.Body = &r.body
	}
	r.Request = *fields.WithContext(&r.scope)
	if c.header == nil {
		c.header = make(http.Header, 6)
	}
	w := &r.response
	w.c, w.scope, w.body, w.header, w.declared = c, &r.scope, &r.body, c.header, -1
	return r, nil
}

// parse parses a head. It sets Method, Host, Header, ContentLength and response.last, and returns
// the target.
func (r *request) parse(head string) (target string, err error) {
	line, rest, _ := strings.Cut(head, "\r\n")
	var version string
	r.Method, line, _ = strings.Cut(line, " ") // as in methods
	if target, version, _ = strings.Cut(line, " "); version != "HTTP/1.1" || !isPlainPath(target) {
		return "", errUnusual
	}
	fields := strings.Count(rest, "\n") - 1
	if fields > maxFields {
		return "", errUnusual
	}
	values := r.values[:0]
	if fields > len(r.values) {
		values = make([]string, 0, fields)
	}
	r.Header = make(http.Header, fields)
	for {
		line, rest, _ = strings.Cut(rest, "\r\n")
		if line == "" {
			break
		}
		name, value, found := strings.Cut(line, ":")
		name, special := canonicalName(name)
		if value = strings.Trim(value, " \t"); !found || name == "" || !plaintext.IsFieldValue(value) {
			return "", errUnusual
		}
		switch special {
		case plain:
		case isHost:
			if r.Host != "" || !isPlainHost(value) {
				return "", errUnusual
			}
			r.Host = value
			continue
		default:
			if !r.setSpecial(special, name, value) {
				return "", errUnusual
			}
		}
		if before := r.Header[name]; before != nil {
			r.Header[name] = append(before, value)
			continue
		}
		values = append(values, value)
		r.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if rest != "" || r.Host == "" {
		return "", errUnusual
	}
	return target, nil
}

// setSpecial applies a header that changes how the request is read. It reports false if
// the request is not served here.
func (r *request) setSpecial(what special, name, value string) bool {
	if len(r.Header[name]) > 0 {
		return false
	}
	switch what {
	case isLength:
		n, ok := contentLength(value)
		r.ContentLength = n
		return ok
	case isConnection:
		r.response.last = strings.EqualFold(value, "close")
		return r.response.last || strings.EqualFold(value, "keep-alive")
	}
	return false
}

// contentLength parses a length of up to 15 digits.
func contentLength(value string) (n int64, ok bool) {
	for i := range len(value) {
		d := value[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = 10*n + int64(d)
	}
	return n, value != "" && len(value) <= 15
}

// isPlainPath reports whether a target is a path that means the same to every reader.
func isPlainPath(target string) bool {
	if target == "" || target[0] != '/' || strings.Contains(target, "//") {
		return false
	}
	for i := range len(target) {
		if b := target[i]; b != '/' && !isUnreserved(b) {
			return false
		}
	}
	return true
}

// isPlainHost reports whether a Host is a name or an address, with or without a port.
func isPlainHost(host string) bool {
	for i := range len(host) {
		if b := host[i]; b != ':' && b != '[' && b != ']' && !isUnreserved(b) {
			return false
		}
	}
	return host != ""
}

// isUnreserved reports whether a byte is unreserved in URIs (RFC 3986, section 2.3).
func isUnreserved(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '.' || b == '_' || b == '~'
}

// body is the body of a request. Its length is known.
type body struct {
	r    *request
	c    *conn
	left int64
	err  error // that Read returns from now on
}

// ended reports whether the body was read to its end.
func (b *body) ended() bool { return b.left == 0 }

// Read implements io.Reader. It returns io.EOF together with the last bytes.
func (b *body) Read(p []byte) (n int, err error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case len(p) == 0:
		return 0, nil
	}
	p = p[:min(int64(len(p)), b.left)]
	c := b.c
	if c.begin < c.end {
		n = copy(p, c.in[c.begin:c.end])
		c.begin += n
	} else {
		c.setReadDeadlineAt(b.r.response.readUntil)
		n, err = c.read(p)
	}
	switch b.left -= int64(n); {
	case b.left == 0:
		b.err = io.EOF
		c.watch.bodyRead()
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		b.err, b.r.response.last = err, true
	}
	return n, err
}

// Close implements io.Closer. The rest of the body is skipped before the answer.
func (b *body) Close() error {
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}

// maxSkipped is how much of a body that the handler did not read is skipped, so that the
// connection can be kept. It is that of net/http.
const maxSkipped = 256 << 10

// settle makes sure that the client has sent the body before it gets the answer, because
// clients may not read before. A connection whose client may still be sending ends.
func (b *body) settle() {
	if b.left == 0 || b.r.response.last {
		return
	}
	if b.left > maxSkipped {
		b.r.response.last = true
		return
	}
	b.err = nil
	if _, err := io.Copy(io.Discard, b); err != nil {
		b.r.response.last = true
	}
}

// special says what a header means for reading the request.
type special byte

const (
	plain special = iota
	isHost
	isLength
	isConnection
	notHere // a request with this header is not served here
)

// specials are the headers that matter for reading a request or keeping the connection.
// net/http adds Cache-Control to requests with Pragma.
var specials = map[string]special{
	"Host": isHost, "Content-Length": isLength, "Connection": isConnection,
	"Transfer-Encoding": notHere, "Upgrade": notHere, "Expect": notHere, "Trailer": notHere,
	"Te": notHere, "Http2-Settings": notHere, "Pragma": notHere,
}

// nameInfo is the canonical form of a header's name.
type nameInfo struct {
	name    string
	special special
}

// usualNames are the names of usual headers as clients write them, so that most names need
// not be checked and converted.
var usualNames = func() map[string]nameInfo {
	m := make(map[string]nameInfo)
	add := func(names ...string) {
		for _, name := range names {
			canonical := http.CanonicalHeaderKey(name)
			info := nameInfo{canonical, specials[canonical]}
			m[name], m[canonical], m[strings.ToLower(name)] = info, info, info
		}
	}
	for name := range specials {
		add(name)
	}
	add("Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Content-Type", "Cookie", "Last-Event-ID",
		"MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "MCP-Session-ID", "Origin", "Referer", "Sec-Fetch-Dest",
		"Sec-Fetch-Mode", "Sec-Fetch-Site", "Traceparent", "Tracestate", "User-Agent", "Via", "X-Forwarded-For",
		"X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "X-Request-ID", "X-API-Key")
	return m
}()

// canonicalName returns the canonical form of a header's name, and its meaning. The name is
// "" if it is not valid.
func canonicalName(name string) (string, special) {
	if info, ok := usualNames[name]; ok {
		return info.name, info.special
	}
	for i := range len(name) {
		if !isUnreserved(name[i]) {
			return "", plain
		}
	}
	name = http.CanonicalHeaderKey(name)
	return name, specials[name]
}
