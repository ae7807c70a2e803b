package results

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"mcpgateway/internal/wire"
)

// Piece is the part of a document that a query selects.
type Piece struct {
	Text     []byte // a part of the document if that is possible; nobody may change it
	Blob     []byte // in the place of Text if the part is a blob
	MIMEType string
	// Part is the number of the part that the query names, from 1, 0 if it names none.
	Part int
	// Blobs are the parts that are blobs, if the query is for a whole that has several parts.
	Blobs []Piece
	// Shown says in words what the piece is, and of how much.
	Shown string
	// Next is the text after the id in the URI of the next piece, if the piece had to be cut
	// short, else "".
	Next string
	// Outline is the structure of a JSON value that was cut short, "" for none.
	Outline string
}

// Read returns the piece of the document that a query selects. The piece is cut at about max
// bytes, unless the query is for all that is at its URI. The error says what would be right; it
// is that of ctx if ctx is done.
func (d *Document) Read(ctx context.Context, q *Query, max int) (Piece, error) {
	text, mime := d.Text, d.mimeType()
	single := q.Part
	if len(d.Parts) == 1 && single == 0 {
		single = 1
	}
	if single > len(d.Parts) {
		return Piece{}, fmt.Errorf("the result has %d %s, not %d", len(d.Parts), plural(len(d.Parts), "part"), single)
	}
	isJSON := false
	if single > 0 {
		p := &d.Parts[single-1]
		text, mime, isJSON = d.text(p), p.mimeType(), p.JSON
		if p.Blob != nil {
			return readBlob(p, q, max)
		}
	}
	if q.HasPointer {
		switch {
		case single == 0:
			return Piece{}, fmt.Errorf("the result has %d parts; a pointer is about one of them: write its number after the id, from 1, such as /1?pointer=", len(d.Parts))
		case !isJSON:
			return Piece{}, fmt.Errorf("the text is not a JSON object or array; use lines, range or grep instead of pointer")
		}
		v, err := lookup(wire.ValueOf(text), q.Pointer)
		if err != nil {
			return Piece{}, err
		}
		isJSON = v.Kind() != '"'
		text = valueText(v)
		if mime = "application/json"; !isJSON {
			mime = "text/plain"
		}
	}
	r := reading{q: q, text: text, max: max, piece: Piece{MIMEType: mime, Part: q.Part}}
	if err := r.read(ctx); err != nil {
		return Piece{}, err
	}
	if single == 0 && q.whole() {
		r.piece.Blobs = d.blobs()
	}
	if r.piece.Next != "" {
		if q.Part > 0 {
			r.piece.Next = "/" + strconv.Itoa(q.Part) + r.piece.Next
		}
		if isJSON && q.HasPointer && q.lines == nil && q.bytes == nil && q.grep == nil {
			r.piece.Outline = outlineJSON(wire.ValueOf(text), q.Pointer, max/4)
		}
	}
	return r.piece, nil
}

// blobs returns the parts that are blobs.
func (d *Document) blobs() []Piece {
	var out []Piece
	for i := range d.Parts {
		if p := &d.Parts[i]; p.Blob != nil {
			out = append(out, Piece{Blob: p.Blob, MIMEType: p.mimeType(), Part: i + 1})
		}
	}
	return out
}

// reading is one reading of a text.
type reading struct {
	q     *Query
	text  []byte
	max   int
	piece Piece
}

func (r *reading) read(ctx context.Context) error {
	switch {
	case r.q.grep != nil:
		return r.grep(ctx)
	case r.q.lines != nil:
		return r.lines()
	case r.q.bytes != nil:
		return r.bytes(*r.q.bytes)
	}
	if r.q.whole() {
		r.max = len(r.text)
	}
	return r.bytes(span{to: -1})
}

// bytes reads a range of bytes. Its ends are moved to where characters begin.
func (r *reading) bytes(s span) error {
	if len(r.text) == 0 {
		r.piece.Shown = "nothing: the text is empty"
		return nil
	}
	from, to, err := s.within("range", 0, len(r.text))
	if err != nil {
		return err
	}
	from, end := runeStart(r.text, from), to+1
	if e := runeStart(r.text, end); e > from {
		end = e
	}
	r.cut(from, end, s.to, "bytes")
	return nil
}

// cut keeps text[from:end], or its beginning if it is too long.
func (r *reading) cut(from, end, asked int, unit string) {
	n := beginning(r.text[from:end], max(r.max, 1))
	if n == 0 {
		n = end - from
	}
	r.piece.Text = r.text[from : from+n]
	r.piece.Shown = fmt.Sprintf("bytes %d-%d of %d", from, from+n-1, len(r.text))
	if from+n < end {
		if asked >= 0 {
			asked = end - 1
		}
		r.piece.Next = r.q.encode("range", span{from: from + n, to: asked})
	}
}

// lines reads a range of lines.
func (r *reading) lines() error {
	from, to, start, end, all, err := r.selectLines()
	if err != nil {
		return err
	}
	part := r.text[start:end]
	if len(part) > r.max {
		part = part[:beginningLines(part, r.max)]
		if len(part) == 0 { // the first line alone is too long
			next := *r.q
			next.lines = nil
			r.q = &next
			r.cut(start, end, 0, "bytes")
			r.piece.Shown += fmt.Sprintf("; line %d begins there, and is too long to be shown whole", from)
			return nil
		}
		last := from + countLines(part) - 1
		next := span{from: last + 1, to: to}
		if r.q.lines.to < 0 {
			next.to = -1
		}
		r.piece.Next = r.q.encode("lines", next)
		to = last
	}
	r.piece.Text = part
	r.piece.Shown = fmt.Sprintf("lines %d-%d of %d", from, to, all)
	return nil
}

// selectLines returns the lines that the query selects, all of them if it selects none: their
// numbers, where they are, and how many lines there are.
func (r *reading) selectLines() (from, to, start, end, all int, err error) {
	all = countLines(r.text)
	s := span{from: 1, to: -1}
	if r.q.lines != nil {
		s = *r.q.lines
	}
	if from, to, err = s.within("lines", 1, all); err != nil {
		return
	}
	start = lineStart(r.text, from)
	end = start + lineStart(r.text[start:], to-from+2)
	return
}

// beginningLines returns how long the whole lines at the beginning of a text are, at most max
// bytes.
func beginningLines(text []byte, max int) int {
	for i := max - 1; i >= 0; i-- {
		if text[i] == '\n' {
			return i + 1
		}
	}
	return 0
}

// grep reads the lines that match.
func (r *reading) grep(ctx context.Context) error {
	if len(r.text) == 0 {
		r.piece.Shown = "nothing: the text is empty"
		return nil
	}
	from, to, start, end, all, err := r.selectLines()
	if err != nil {
		return err
	}
	select {
	case searching <- struct{}{}:
		defer func() { <-searching }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s := search{pattern: r.q.grep, max: r.max, deadline: time.Now().Add(searchTime)}
	next, err := s.run(ctx, r.text[start:end], from)
	if err != nil {
		return err
	}
	r.piece.Text, r.piece.MIMEType = s.out.Bytes(), "text/plain"
	last := to
	if next > 0 {
		last = next - 1
		follows := span{from: next, to: -1}
		if r.q.lines != nil && r.q.lines.to >= 0 && r.q.lines.last == 0 {
			follows.to = to
		}
		r.piece.Next = r.q.encode("lines", follows)
	}
	r.piece.Shown = fmt.Sprintf("%d matching %s among lines %d-%d of %d", s.matches, plural(s.matches, "line"), from, last, all)
	if s.stopped > 0 {
		r.piece.Shown += fmt.Sprintf("; the search took too long, and stopped at byte %d of line %d", s.stopped, last)
	}
	return nil
}

// readBlob reads a range of a blob, or all of it.
func readBlob(p *Part, q *Query, max int) (Piece, error) {
	if q.HasPointer || q.lines != nil || q.grep != nil {
		return Piece{}, fmt.Errorf("the part is a blob of type %s; only range reads parts of it", quote(p.mimeType()))
	}
	from, to := 0, len(p.Blob)-1
	if q.bytes != nil {
		var err error
		if from, to, err = q.bytes.within("range", 0, len(p.Blob)); err != nil {
			return Piece{}, err
		}
	}
	piece := Piece{MIMEType: p.mimeType(), Part: q.Part}
	if asked := to; q.bytes != nil && to-from+1 > max {
		to = from + max - 1
		piece.Next = "/" + strconv.Itoa(q.Part) + q.encode("range", span{from: to + 1, to: asked})
		if q.Part == 0 {
			piece.Next = q.encode("range", span{from: to + 1, to: asked})
		}
	}
	piece.Blob = p.Blob[from : to+1]
	piece.Shown = fmt.Sprintf("bytes %d-%d of %d of a blob", from, to, len(p.Blob))
	return piece, nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
