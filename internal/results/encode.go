package results

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// ErrMalformed is the error of DecodeDocument.
var ErrMalformed = errors.New("the document is malformed")

// documentHeader is all of a document but its texts and blobs.
type documentHeader struct {
	Text  int          `json:"text"` // bytes
	Parts []partHeader `json:"parts"`
	Items []Item       `json:"items,omitempty"`
}

type partHeader struct {
	Kind     string `json:"kind"`
	URI      string `json:"uri,omitempty"`
	MIMEType string `json:"mime,omitempty"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
	JSON     bool   `json:"json,omitempty"`
	IsBlob   bool   `json:"isBlob,omitempty"`
	Blob     int    `json:"blob,omitempty"` // bytes
}

// Append appends the document in a form that [DecodeDocument] reads: a header as JSON with its length, then
// the text and the blobs as they are. Equal documents have equal forms.
func (d *Document) Append(dst []byte) []byte {
	h := documentHeader{Text: len(d.Text), Parts: make([]partHeader, len(d.Parts)), Items: d.Items}
	for i, p := range d.Parts {
		h.Parts[i] = partHeader{p.Kind, p.URI, p.MIMEType, p.Start, p.End, p.JSON, p.Blob != nil, len(p.Blob)}
	}
	header, err := json.Marshal(h)
	if err != nil {
		panic(err) // a header has no types that can fail
	}
	dst = binary.AppendUvarint(dst, uint64(len(header)))
	dst = append(append(dst, header...), d.Text...)
	for i := range d.Parts {
		dst = append(dst, d.Parts[i].Blob...)
	}
	return dst
}

// DecodeDocument returns the document that Append has encoded. It refers to data.
func DecodeDocument(data []byte) (*Document, error) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return nil, ErrMalformed
	}
	var h documentHeader
	header, rest := data[n:n+int(size)], data[n+int(size):]
	if json.Unmarshal(header, &h) != nil || len(h.Parts) == 0 || len(h.Parts) > 2*maxParts || h.Text < 0 || h.Text > len(rest) {
		return nil, ErrMalformed
	}
	d := &Document{Text: rest[:h.Text:h.Text], Parts: make([]Part, len(h.Parts)), Items: h.Items}
	if !utf8.Valid(d.Text) {
		return nil, ErrMalformed
	}
	rest = rest[h.Text:]
	for i, p := range h.Parts {
		if p.Start < 0 || p.End < p.Start || p.End > len(d.Text) || p.Blob < 0 || p.Blob > len(rest) {
			return nil, ErrMalformed
		}
		d.Parts[i] = Part{Kind: p.Kind, URI: p.URI, MIMEType: p.MIMEType, Start: p.Start, End: p.End, JSON: p.JSON}
		if p.IsBlob {
			d.Parts[i].Blob = rest[:p.Blob:p.Blob]
		}
		if d.Parts[i].JSON && !isJSON(d.text(&d.Parts[i])) {
			return nil, ErrMalformed
		}
		rest = rest[p.Blob:]
	}
	if len(rest) > 0 {
		return nil, ErrMalformed
	}
	return d, nil
}
