package conform

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"mcpgateway/internal/wire"
)

// Members that every block may have.
var (
	annotationsRule = rule{name: "annotations", section: secAnnotation, check: anAnnotations}
	metaRule        = rule{name: "_meta", section: secMeta, check: aMeta}
	audienceRule    = rule{name: "audience", section: secAnnotation, into: "annotations"}
	priorityRule    = rule{name: "priority", section: secAnnotation, into: "annotations"}
	modifiedRule    = rule{name: "lastModified", section: secAnnotation, into: "annotations"}
	isErrorRule     = rule{name: "isError", section: secToolResult, check: raiseError}
)

func blockRules(own ...rule) []rule {
	return append(own, annotationsRule, metaRule, audienceRule, priorityRule, modifiedRule, isErrorRule, rule{name: "type"})
}

var textRules = blockRules(rule{
	name: "text", need: true, section: secToolResult, check: anyText(secToolResult), other: []string{"content", "value"},
	fill: func(*walk, wire.Value) (wire.Raw, string) { return wire.Raw(`""`), "" },
})

// The rules refer to functions that refer to them again.
var imageRules, audioRules, embeddedRules, linkRules []rule

func init() {
	imageRules = blockRules(mediaRules("image")...)
	audioRules = blockRules(mediaRules("audio")...)
	embeddedRules = blockRules(
		rule{name: "resource", need: true, section: secContents, check: contents},
		rule{name: "uri", section: secContents, into: "resource", public: true},
		rule{name: "text", section: secContents, into: "resource"},
		rule{name: "blob", section: secContents, into: "resource"},
		rule{name: "mimeType", section: secContents, into: "resource"},
	)

}

func mediaRules(kind string) []rule {
	return []rule{
		{
			name: "data", need: true, section: secToolResult, check: aBase64, other: []string{"blob", "base64"},
		},
		{
			name: "mimeType", need: true, section: secToolResult, check: mediaType(kind),
			other: []string{"mime_type", "mimetype", "mediaType", "media_type", "format"},
			fill: func(_ *walk, obj wire.Value) (wire.Raw, string) {
				data, mime, _ := mendBase64(obj.Get("data").Str())
				if !isMIMEType(mime) {
					mime = sniff(data)
				}
				return wire.String(mime), ""
			},
		},
	}
}

// mediaType returns the check of the MIME type of an image or a sound.
func mediaType(kind string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw {
		text, ok := v.Text()
		if ok && isMIMEType(text) {
			return nil
		}
		w.found(InvalidMIMEType, secToolResult, true, fmt.Sprintf("%q is no MIME type; it must look like %s/…", clip(text, 64), kind))
		switch name := strings.ToLower(strings.TrimSpace(text)); {
		case isMIMEType(name):
			return wire.String(name)
		case name == "jpg":
			return wire.String(kind + "/jpeg")
		case isMIMEName(name):
			return wire.String(kind + "/" + name)
		}
		return gone
	}
}

// aBase64 checks the data of an image or a sound.
func aBase64(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '"' {
		w.found(WrongType, secToolResult, false, "must be a string of Base64, not "+kindOf(v))
		w.stuck++
		return nil
	}
	if isBase64(v) {
		return nil
	}
	text := v.Str()
	data, _, ok := mendBase64(text)
	w.found(InvalidBase64, secToolResult, ok, wordsOfBase64(text))
	if !ok {
		w.stuck++
		return nil
	}
	return wire.String(data)
}

func wordsOfBase64(text string) string {
	switch {
	case isURL(text):
		return "is a URL; it must be the Base64 of the bytes"
	case strings.ContainsAny(text, ":,"):
		return "is a data: URL or other text; it must be Base64 alone"
	case strings.ContainsAny(text, "-_"):
		return "is in the alphabet for URLs; it must be in that of RFC 4648, section 4"
	case strings.ContainsAny(text, " \t\r\n"):
		return "has white space in it; it must be Base64 without"
	default:
		return "is no Base64, or lacks its padding (RFC 4648, section 4)"
	}
}

// raiseError takes the isError of a block for that of its result.
func raiseError(w *walk, v wire.Value) wire.Raw {
	w.found(Misplaced, secToolResult, true, "stands in a block; it is a member of the result")
	if v.Kind() == 't' {
		w.raised = wire.Raw("true")
	}
	return gone
}

// contentBlocks checks the content of a tool's result.
func contentBlocks(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '[':
		return w.array(v, block)
	case '{', '"':
		w.found(WrongType, secToolResult, true, "must be an array of blocks, not "+kindOf(v))
		el := block(w, v)
		if el == nil {
			el = v.Raw()
		}
		return append(append(wire.Raw{'['}, el...), ']')
	default:
		w.found(WrongType, secToolResult, true, "must be an array of blocks, not "+kindOf(v))
		return append(append(wire.Raw{'['}, textBlock(string(v.Raw()))...), ']')
	}
}

// block checks a content block. What no client could take becomes a text block
// with the JSON that it was, so that nothing is lost.
func block(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '{':
	case '"':
		w.found(WrongType, secToolResult, true, "must be a block such as {\"type\":\"text\",\"text\":…}, not a string")
		return textBlock(v.Str())
	default:
		w.found(WrongType, secToolResult, true, "must be a block, not "+kindOf(v))
		return textBlock(string(v.Raw()))
	}
	kind := v.Get("type")
	rules, since := rulesOf(kind)
	if rules == nil {
		return w.oddBlock(v, kind)
	}
	if since != "" && w.rev != "" && !w.rev.AtLeast(since) {
		w.foundIn("type", NewerThanRevision, secToolResult, false, fmt.Sprintf("%s came with revision %s", kind.Str(), since))
	}
	for _, other := range []func(*walk, wire.Value, wire.Value) wire.Raw{asLink, fromSource} {
		if fix := other(w, v, kind); fix != nil {
			return fix
		}
	}
	stuck := w.stuck
	fix := w.object(v, rules)
	if w.stuck > stuck {
		w.stuck = stuck
		w.settled()
		return textBlock(string(v.Raw()))
	}
	return fix
}

// settled notes that what was found last has an answer after all.
func (w *walk) settled() {
	for i := range w.findings {
		f := &w.findings[i]
		f.Mended = f.Mended || w.mend && f.Fault != InvalidURI && f.Fault != InvalidMeta && strings.HasPrefix(f.Path, w.path(""))
	}
}

func rulesOf(kind wire.Value) (rules []rule, since wire.Revision) {
	switch {
	case kind.IsString("text"):
		return textRules, ""
	case kind.IsString("image"):
		return imageRules, ""
	case kind.IsString("audio"):
		return audioRules, wire.Rev20250326
	case kind.IsString("resource"):
		return embeddedRules, ""
	case kind.IsString("resource_link"):
		return linkRules, wire.Rev20250618
	}
	return nil, ""
}

// oddBlock is a block whose type is not known.
func (w *walk) oddBlock(v, kind wire.Value) wire.Raw {
	guess := guessType(v, kind)
	switch {
	case !kind.Exists() || kind.Kind() == 'n':
		w.foundIn("type", Missing, secToolResult, true, "is missing; it says what the block is")
	case guess != "":
		w.foundIn("type", InvalidValue, secToolResult, true, fmt.Sprintf("%q is no type of blocks; did it mean %q?", clip(kind.Str(), 32), guess))
	default:
		w.foundIn("type", UnknownBlock, secToolResult, true, fmt.Sprintf("%q is no type of blocks; it must be text, image, audio, resource or resource_link", clip(kind.Str(), 32)))
	}
	if !w.mend {
		return nil
	}
	if guess == "" {
		return textBlock(string(v.Raw()))
	}
	named := w.subject.rewrittenBlock(wire.SetMember(v.Raw(), "type", wire.String(guess)))
	if fix := block(w, wire.ValueOf(named)); fix != nil {
		return fix
	}
	return named
}

// guessType returns the type that a block without a good one can only mean, ""
// when it may mean several.
func guessType(v, kind wire.Value) string {
	name := strings.ToLower(strings.TrimSpace(kind.Str()))
	switch name {
	case "text", "image", "audio", "resource", "resource_link":
		return name
	case "":
	case "resourcelink", "resource-link":
		return "resource_link"
	case "embedded_resource", "embeddedresource":
		return "resource"
	default:
		return ""
	}
	mime, data := v.Get("mimeType").Str(), v.Get("data")
	switch {
	case v.Get("text").Kind() == '"' && !v.Get("uri").Exists():
		return "text"
	case data.Kind() == '"' && strings.HasPrefix(mime, "image/"):
		return "image"
	case data.Kind() == '"' && strings.HasPrefix(mime, "audio/"):
		return "audio"
	case v.Get("resource").Kind() == '{':
		return "resource"
	case v.Get("uri").Kind() == '"' && v.Get("name").Kind() == '"':
		return "resource_link"
	}
	return ""
}

// asLink turns an image or a sound whose data is a URL into a link to it.
func asLink(w *walk, v, kind wire.Value) wire.Raw {
	if !isMedia(kind) {
		return nil
	}
	for _, name := range []string{"data", "url", "uri", "image_url"} {
		at := v.Get(name)
		if url := at.Get("url"); url.Exists() {
			at = url
		}
		if !mayBeURL(at) || name != "data" && v.Get("data").Kind() == '"' {
			continue
		}
		text := at.Str()
		if !isURL(text) {
			continue
		}
		w.foundIn(name, InvalidBase64, secToolResult, true, "is a URL; data must be the Base64 of the bytes, and resource_link is for URLs")
		if !w.mend {
			return gone // its other faults would only say the same again
		}
		base := path.Base(strings.TrimRight(strings.SplitN(text, "?", 2)[0], "/"))
		link := wire.Raw(`{"type":"resource_link"}`)
		link = wire.SetMember(link, "uri", wire.String(w.subject.public(text)))
		link = wire.SetMember(link, "name", wire.String(base))
		if mime := v.Get("mimeType"); isMIMEType(mime.Str()) {
			link = wire.SetMember(link, "mimeType", mime.Raw())
		}
		for _, name := range []string{"annotations", "_meta"} {
			if m := v.Get(name); m.Kind() == '{' {
				link = wire.SetMember(link, name, m.Raw())
			}
		}
		if fix := w.object(wire.ValueOf(link), linkRules); fix != nil {
			return fix
		}
		return link
	}
	return nil
}

func isMedia(kind wire.Value) bool { return kind.IsString("image") || kind.IsString("audio") }

// fromSource takes the data of an image out of the form that an API of a model
// provider has.
func fromSource(w *walk, v, kind wire.Value) wire.Raw {
	if !isMedia(kind) {
		return nil
	}
	source := v.Get("source")
	if source.Get("data").Kind() != '"' || v.Get("data").Exists() {
		return nil
	}
	w.foundIn("source", Misplaced, secToolResult, true, "is not a member of the specification; data and mimeType stand beside type")
	if !w.mend {
		return gone
	}
	e := wire.NewEdit(v.Raw())
	e.Remove(e.Root(), "source")
	block := wire.SetMember(e.Bytes(), "data", source.Get("data").Raw())
	if mime := source.Get("media_type"); mime.Exists() && !v.Get("mimeType").Exists() {
		block = wire.SetMember(block, "mimeType", mime.Raw())
	}
	rules, _ := rulesOf(kind)
	return w.remade(block, rules)
}

// mayBeURL reports whether a value is a string that begins as URLs do. Data is
// long, and almost always it does not.
func mayBeURL(v wire.Value) bool {
	raw := v.Raw()
	return v.Kind() == '"' && len(raw) > 8 && (raw[1] == '\\' || bytes.IndexByte(raw[:8], ':') > 0)
}

// isURL reports whether a text is a URL of a place where bytes can be had.
func isURL(text string) bool {
	for _, scheme := range []string{"http://", "https://", "file://"} {
		if _, is := cutPrefixFold(text, scheme); is {
			return isURI(text)
		}
	}
	return false
}

// textBlock returns a text block.
func textBlock(text string) wire.Raw {
	out := make(wire.Raw, 0, len(text)+32)
	out = append(out, `{"type":"text","text":`...)
	out = wire.AppendString(out, text)
	return append(out, '}')
}

var contentsRules []rule

func init() {
	contentsRules = []rule{
		{
			name: "uri", need: true, section: secContents, check: aURI, other: []string{"url"}, public: true,
			fill: func(w *walk, _ wire.Value) (wire.Raw, string) {
				if asked := w.subject.asked(); asked != "" {
					return wire.String(asked), "is missing; it must be the URI of the resource"
				}
				return nil, ""
			},
		},
		{name: "mimeType", section: secContents, check: aMIMEType, other: []string{"mime_type", "mimetype", "contentType"}},
		{name: "text", section: secContents, check: anyText(secContents), other: []string{"content"}},
		{name: "blob", section: secContents, check: aBlob, other: []string{"data", "base64"}},
		metaRule, annotationsRule,
		{name: "icons", section: secIcons, check: anIcons},
		{name: "size", section: secResource, check: aCount(secResource)},
	}
}

// aBlob checks the bytes of a resource.
func aBlob(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '"' {
		w.found(WrongType, secContents, true, "must be a string of Base64, not "+kindOf(v))
		return gone
	}
	if isBase64(v) {
		return nil
	}
	text := v.Str()
	data, _, ok := mendBase64(text)
	if w.found(InvalidBase64, secContents, ok, wordsOfBase64(text)); !ok {
		w.stuck++
		return nil
	}
	return wire.String(data)
}

// contents checks the contents of a resource, read or embedded: text or blob.
func contents(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '{' {
		if v.Kind() == '"' && w.subject.asked() != "" {
			w.found(WrongType, secContents, true, "must be an object with uri and text, not a string")
			out := wire.SetMember(wire.Raw(`{}`), "uri", wire.String(w.subject.asked()))
			return w.typed(wire.SetMember(out, "text", v.Raw()))
		}
		w.found(WrongType, secContents, false, "must be an object with uri and text or blob, not "+kindOf(v))
		w.stuck++
		return nil
	}
	fix := w.object(v, contentsRules)
	doc := fix
	if doc == nil {
		doc = v.Raw()
	}
	now := wire.ValueOf(doc)
	if !w.mend {
		w.oneOfBoth(v, doc)
		w.typed(doc)
		return nil
	}
	doc = w.oneOfBoth(now, doc)
	doc = w.typed(doc)
	if fix == nil && &doc[0] == &v.Raw()[0] {
		return nil
	}
	return doc
}

// oneOfBoth sees to it that contents have a text or a blob.
func (w *walk) oneOfBoth(v wire.Value, doc wire.Raw) wire.Raw {
	text, blob := v.Get("text"), v.Get("blob")
	hasText := text.Exists() && text.Kind() != 'n' || v.Get("content").Exists()
	hasBlob := blob.Exists() && blob.Kind() != 'n' || v.Get("data").Exists() || v.Get("base64").Exists()
	switch {
	case !hasText && !hasBlob:
		w.foundIn("text", Missing, secContents, true, "is missing, and so is blob; one of them is required")
		return wire.SetMember(doc, "text", wire.Raw(`""`))
	case hasText && hasBlob:
		empty := ""
		if text.IsString("") && !blob.IsString("") {
			empty = "text"
		} else if blob.IsString("") {
			empty = "blob"
		}
		w.found(TextAndBlob, secContents, empty != "", "has text and blob; it must have one of them")
		if empty != "" {
			e := wire.NewEdit(doc)
			e.Remove(e.Root(), empty)
			return e.Bytes()
		}
	}
	return doc
}

// typed fills a missing MIME type from the list that the resource stands in.
func (w *walk) typed(doc wire.Raw) wire.Raw {
	v := wire.ValueOf(doc)
	if v.Get("mimeType").Exists() {
		return doc
	}
	mime := w.subject.listedType(v.Get("uri"))
	if mime == "" {
		return doc
	}
	w.foundIn("mimeType", MissingMIMEType, secContents, true, "is missing; the list gives "+clip(mime, 64))
	return wire.SetMember(doc, "mimeType", wire.String(mime))
}
