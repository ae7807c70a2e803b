package frontend

import (
	"net/http"
	"strings"

	"mcpgateway/internal/gzipped"
)

const (
	// compressPage is the size from which a page of a list is compressed, which costs once.
	compressPage = 1 << 10
	// compressResult is the size from which other results are compressed.
	compressResult = 64 << 10
)

var gzipCoding = []string{"gzip"}

// codings says which content codings a client accepts.
type codings struct{ gzip, identity bool }

// parseAcceptEncoding reads the Accept-Encoding header (RFC 9110, section 12.5.3). gzip
// counts as accepted if it has at least the weight of identity. A client that names no
// coding gets none, and a coding with anything else than a weight is not used.
func parseAcceptEncoding(header []string) codings {
	const absent = -1
	gzip, identity, others := absent, absent, absent
	for _, list := range header {
		for part := range strings.SplitSeq(list, ",") {
			coding, params, _ := strings.Cut(part, ";")
			weight, more, valid := weightOf(params)
			if more || !valid {
				weight = 0
			}
			switch coding = strings.TrimSpace(coding); {
			case strings.EqualFold(coding, "gzip"), strings.EqualFold(coding, "x-gzip"):
				gzip = max(gzip, weight)
			case strings.EqualFold(coding, "identity"):
				identity = weight
			case coding == "*":
				others = weight
			}
		}
	}
	if gzip == absent {
		gzip = others
	}
	refused := identity == 0 || identity == absent && others == 0
	return codings{gzip: gzip > 0 && gzip >= identity, identity: !refused}
}

// write writes the response as JSON, compressed if the client accepts it and it pays.
// Pages of lists are compressed once, others each time. Refusals of a request, and
// streams of events, are never compressed: see docs/design/lists.md. The error is that of
// writeJSON.
func (p *postResponse) write(status int, r *response) error {
	set := p.s.settings.Load()
	size := len(r.result)
	kept := r.page != nil && size >= compressPage && set.CompressLists
	worth := kept || size >= compressResult && set.CompressResults
	if worth {
		p.w.Header().Add("Vary", "Accept-Encoding")
	}
	if !p.codings.gzip || !worth && p.codings.identity {
		return p.s.writeJSON(p.w, p.reserved.share, status, r.pieces())
	}
	out := newBuffer()
	var msg pieces
	compressed := false
	switch {
	case kept:
		msg, compressed = r.compressPage(out), true
	case worth:
		msg, compressed = r.compress(out)
	}
	switch {
	case compressed:
	case p.codings.identity:
		out.release()
		return p.s.writeJSON(p.w, p.reserved.share, status, r.pieces())
	default:
		msg = store(out, r.joined())
	}
	p.w.Header()["Content-Encoding"] = gzipCoding
	err := p.s.writeJSON(p.w, p.reserved.share, status, msg)
	if err == nil {
		out.release()
	}
	return err
}

// closingBrace follows every page in its response.
var closingBrace = []byte{'}'}

// compressPage returns the response with a page, compressed into out and the memory of
// the page. The response cannot be used otherwise afterwards.
func (r *response) compressPage(out *buffer) pieces {
	start := r.page.Start
	r.buf.b = append(r.buf.b[:r.cut], r.result[:start]...) // in the place of the brace
	b, cut, stream := r.page.Text.Append(out.b, r.buf.b, r.result[start:], closingBrace)
	out.b = b
	return pieces{b[:cut], stream, b[cut:]}
}

// compress returns the response compressed into out, and false if that saves too little.
func (r *response) compress(out *buffer) (pieces, bool) {
	b, worth := gzipped.Compress(out.b, r.buf.b[:r.cut], r.result, r.buf.b[r.cut:])
	out.b = b
	return pieces{b}, worth
}

// store returns a message as a member that is not compressed, for a client that accepts
// nothing else.
func store(out *buffer, msg []byte) pieces {
	b, cut, stream := new(gzipped.Text).Append(out.b, msg)
	out.b = b
	return pieces{b[:cut], stream, b[cut:]}
}

// refusesAll reports whether no coding that the server has is acceptable.
func (c codings) refusesAll() bool { return !c.gzip && !c.identity }

var errNoCoding = &refusal{status: http.StatusNotAcceptable, reason: "Accept-Encoding must allow gzip, or identity, which means no compression"}
