package results

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Shortened is the result of a tool that is too long.
type Shortened struct {
	// Document has the texts of the result.
	Document *Document

	result     wire.Value
	max        int
	structured bool    // structuredContent is removed
	remembered []block // by blocks
}

// block is a content block of a result.
type block struct {
	wire.Value
	text wire.Value // what counts: a string, absent for a block that stays as it is
	blob bool       // the text is Base64
}

// Shorten returns how to shorten the result of a tool, nil if its texts have at most max bytes
// together. The texts are those of text blocks and of embedded resources, blobs of embedded
// resources and, unless keepStructured is set, structuredContent, which does not count if a text
// block has the same JSON. Images, audio and links stay and do not count.
func Shorten(result wire.Value, max int, keepStructured bool) *Shortened {
	if len(result.Raw()) <= max {
		return nil // no text is longer than its JSON
	}
	s := &Shortened{result: result, max: max}
	total, memory, parts := 0, 0, 0
	for b := range s.blocks() {
		if n := b.size(); b.text.Exists() {
			total += n
			if parts++; !b.blob {
				memory += n + 1
			}
		}
	}
	var structured wire.Value
	if !keepStructured {
		structured = result.Get("structuredContent")
	}
	if total+len(structured.Raw()) <= max {
		return nil
	}
	s.Document = s.build(memory, parts)
	switch own := structured.Exists() && !s.Document.has(structured.Raw()); {
	case !own && total <= max:
		return nil // clients show one of the two
	case !own:
		s.structured = structured.Exists()
	case len(structured.Raw()) <= max/2 && total > max/2:
		s.max -= len(structured.Raw()) // it is short beside the texts, and stays
	default:
		s.structured = true
		s.Document.add(Part{Kind: kindStructured, MIMEType: "application/json"}, structured)
	}
	return s
}

// blocks iterates over the content blocks. It remembers them unless there are very many.
func (s *Shortened) blocks() iter.Seq[block] {
	if s.remembered != nil {
		return slices.Values(s.remembered)
	}
	return func(yield func(block) bool) {
		var all []block
		n := 0
		for m := range s.result.Members() {
			if !m.Is("content") {
				continue
			}
			for el := range m.Value.Elements() {
				b := blockOf(el)
				if n++; n <= maxParts {
					all = append(all, b)
				}
				if !yield(b) {
					return
				}
			}
		}
		if n <= maxParts {
			s.remembered = all
		}
	}
}

// blockOf returns a content block. Of several members with one name the first counts.
func blockOf(v wire.Value) block {
	b := block{Value: v}
	switch kind := v.Get("type"); {
	case kind.IsString("text"):
		b.text = v.Get("text")
	case kind.IsString("resource"):
		if b.text = v.Get("resource", "text"); b.text.Kind() != '"' {
			b.text, b.blob = v.Get("resource", "blob"), true
		}
	}
	if b.text.Kind() != '"' {
		b.text = wire.Value{}
	}
	return b
}

// size returns how many bytes of the result the block counts.
func (b *block) size() int {
	if !b.text.Exists() {
		return 0
	}
	return content.TextSize(b.text)
}

// part returns the description of the block as a part.
func (b *block) part() Part {
	if !b.Get("type").IsString("resource") {
		return Part{Kind: kindText}
	}
	r := b.Get("resource")
	return Part{Kind: kindResource, URI: plaintext.Clip(r.Get("uri").Str(), maxURI), MIMEType: plaintext.Clip(r.Get("mimeType").Str(), maxMIMEType)}
}

// build makes the document of the blocks. Its texts need so much memory.
func (s *Shortened) build(memory, parts int) *Document {
	d := &Document{Text: make([]byte, 0, memory), Parts: make([]Part, 0, min(parts, maxParts+1)+1)}
	for b := range s.blocks() {
		switch {
		case !b.text.Exists():
		case len(d.Parts) > maxParts:
			d.extend(b.text)
		case len(d.Parts) == maxParts:
			d.add(Part{Kind: kindText}, b.text)
		case b.blob:
			d.addBlob(b.part(), b.text)
		default:
			d.add(b.part(), b.text)
		}
	}
	return d
}

// has reports whether a part has the same JSON as structuredContent, with its members in the
// same order, as servers write both.
func (d *Document) has(structured wire.Raw) bool {
	for i := range d.Parts {
		if p := &d.Parts[i]; p.Kind == kindText && p.JSON && sameJSON(d.text(p), structured) {
			return true
		}
	}
	return false
}

// sameJSON reports whether two JSON texts have the same tokens.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	da, db := jsontext.NewDecoder(bytes.NewReader(a), lenient...), jsontext.NewDecoder(bytes.NewReader(b), lenient...)
	for {
		ta, errA := da.ReadToken()
		tb, errB := db.ReadToken()
		switch {
		case errA == io.EOF && errB == io.EOF:
			return true
		case errA != nil || errB != nil || ta.Kind() != tb.Kind() || ta.String() != tb.String():
			return false
		}
	}
}

// Link says under which URI a client finds a document.
type Link struct {
	URI string
	// Tool is the public name of the tool that the result is of.
	Tool string
	// TTL is for how long the document is kept.
	TTL time.Duration
}

// Result returns the result with the beginning of its texts, a text block with the outline and
// how to read on, and a link to the document. Other members and blocks stay as they are.
func (s *Shortened) Result(l Link) wire.Raw {
	outline := s.Document.outline(min(max(s.max/4, 256), 4096))
	budget := max(s.max-len(outline)-noteSize, s.max/2)
	out := append(make(wire.Raw, 0, s.max+s.max/4+2048), '{')
	written := false
	for m := range s.result.Members() {
		switch {
		case m.Is("structuredContent") && s.structured, m.Is("content") && written:
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, m.Key.Raw()...), ':')
		if m.Is("content") {
			written = true
			out = s.appendContent(out, l, outline, budget)
		} else {
			out = append(out, m.Value.Raw()...)
		}
	}
	if !written {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = s.appendContent(append(out, `"content":`...), l, outline, budget)
	}
	return append(out, '}')
}

// noteSize is more than what the gateway says about the rest of a result takes, without the outline.
const noteSize = 800

// appendContent appends the content of the shorter result.
func (s *Shortened) appendContent(out wire.Raw, l Link, outline string, budget int) wire.Raw {
	out = append(out, '[')
	shown, cut := 0, false
	beginningOf := func(text []byte) {
		text = text[:beginning(text, budget-shown)]
		shown, cut = shown+len(text), true
		if len(text) > 0 {
			out = append(append(out, content.TextBlock(string(text))...), ',')
		}
	}
	for b := range s.blocks() {
		if b.text.Exists() {
			if cut {
				continue
			}
			n := b.size()
			if n > budget-shown {
				if !b.blob {
					beginningOf(appendText(nil, b.text, budget-shown))
				}
				continue
			}
			shown += n
		}
		out = append(append(out, b.Raw()...), ',')
	}
	if last := &s.Document.Parts[len(s.Document.Parts)-1]; last.Kind == kindStructured && !cut {
		beginningOf(s.Document.text(last))
	}
	out = append(append(out, content.TextBlock(s.note(l, outline, shown))...), ',')
	return append(s.appendLink(out, l), ']')
}

// note is the text about the rest of the result. shown is how many bytes are above it.
func (s *Shortened) note(l Link, outline string, shown int) string {
	d := s.Document
	all := countLines(d.Text)
	var b strings.Builder
	fmt.Fprintf(&b, "[The gateway shortened this result: it has %d bytes", d.bytes())
	if all > 1 {
		fmt.Fprintf(&b, " in %d lines", all)
	}
	fmt.Fprintf(&b, "; above are the first %d", shown)
	if part := d.Text[:min(shown, len(d.Text))]; all > 1 && len(d.Parts) == 1 && len(part) > 0 {
		if part[len(part)-1] == '\n' {
			fmt.Fprintf(&b, ", lines 1-%d", countLines(part))
		} else {
			fmt.Fprintf(&b, ", up to line %d", countLines(part))
		}
	}
	fmt.Fprintf(&b, ". All of it is kept for %s.\n", duration(l.TTL))
	if outline != "" {
		b.WriteString("Outline:\n")
		b.WriteString(outline)
	}
	ways := d.ways()
	fmt.Fprintf(&b, `Read on where you need to: call %s with {"uri": "%s"} and %s. Or read that resource with one of these as its query, such as %s.]`,
		ReadTool, l.URI, strings.Join(ways, ", "), d.query())
	return b.String()
}

// ways lists the arguments by which a model reads on.
func (d *Document) ways() []string {
	var ways []string
	switch {
	case len(d.Parts) > 1:
		ways = append(ways, `"part": 1 (to which "pointer": "/…" may be added for JSON)`)
	case d.Parts[0].JSON:
		ways = append(ways, `"pointer": "/…" (JSON Pointer)`)
	}
	if countLines(d.Text) > 1 {
		ways = append(ways, `"lines": "1-200"`)
	}
	return append(ways, `"grep": "regexp" (with "context": 2)`, `or "range": "0-4095" (bytes)`)
}

// query is an example of a query.
func (d *Document) query() string {
	switch {
	case countLines(d.Text) > 1:
		return "?lines=1-200"
	case len(d.Parts) == 1 && d.Parts[0].JSON:
		return "?pointer=/…"
	default:
		return "?range=0-4095"
	}
}

// ReadTool is the name of the tool that reads documents.
const ReadTool = "read_result"

// appendLink appends the link to the document.
func (s *Shortened) appendLink(out wire.Raw, l Link) wire.Raw {
	d := s.Document
	out = append(out, `{"type":"resource_link","uri":`...)
	out = wire.AppendString(out, l.URI)
	out = append(out, `,"name":`...)
	out = wire.AppendString(out, "result of "+plaintext.Clip(l.Tool, 128))
	out = append(out, `,"description":`...)
	out = wire.AppendString(out, "The whole result, kept for "+duration(l.TTL)+". Add a query to read a part: ?lines=1-200, ?range=0-4095 (bytes), ?grep=regexp&context=2, or for JSON ?pointer=/items/3.")
	out = append(out, `,"mimeType":`...)
	out = wire.AppendString(out, d.mimeType())
	out = append(out, `,"size":`...)
	out = strconv.AppendInt(out, int64(d.bytes()), 10)
	return append(out, '}')
}

// duration returns a time without units that are zero.
func duration(t time.Duration) string {
	text := t.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
