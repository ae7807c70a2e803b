package conform

import (
	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

var contentsRules []rule

func init() {
	contentsRules = []rule{
		{
			name: "uri", required: true, section: secContents, check: checkURI, aliases: []string{"url"}, isURI: true,
			defaultValue: func(w *walk, _ wire.Value) (wire.Raw, string) {
				if asked := w.checker.asked(); asked != "" {
					return wire.String(asked), "is missing; it must be the URI of the resource"
				}
				return nil, ""
			},
		},
		{name: "mimeType", section: secContents, check: checkMIMEType, aliases: []string{"mime_type", "mimetype", "contentType"}},
		{name: "text", section: secContents, check: checkText(secContents), aliases: []string{"content"}},
		{name: "blob", section: secContents, check: checkBlob, aliases: []string{"data", "base64"}},
		metaRule,
		sep2093("annotations", checkAnnotations), sep2093("icons", checkIcons), sep2093("size", checkCount(secSEP2093)),
	}
}

// sep2093 returns the rule for a member of contents that the draft SEP-2093 defines. In
// every revision it may be anything.
func sep2093(name string, check func(*walk, wire.Value) wire.Raw) rule {
	return rule{name: name, section: secSEP2093, check: func(w *walk, v wire.Value) wire.Raw {
		before := len(w.violations)
		fix := check(w, v)
		for i := range w.violations[before:] {
			w.violations[before+i].Section = secSEP2093
		}
		return fix
	}}
}

// checkBlob checks the blob of a resource.
func checkBlob(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '"' {
		w.report(WrongType, secContents, true, "must be a string of Base64, not "+v.KindName())
		return removed
	}
	if content.IsBase64(v) {
		return nil
	}
	text := v.Str()
	data, _, ok := content.RepairBase64(text)
	if w.report(InvalidBase64, secContents, ok, wordsOfBase64(text)); !ok {
		w.unrepaired++
		return nil
	}
	return wire.String(data)
}

// checkContents checks the contents of a resource, read or embedded.
func checkContents(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '{' {
		if v.Kind() == '"' && w.checker.asked() != "" {
			w.report(WrongType, secContents, true, "must be an object with uri and text, not a string")
			out := wire.SetMember(wire.Raw(`{}`), "uri", wire.String(w.checker.asked()))
			return w.fillMIMEType(wire.SetMember(out, "text", v.Raw()))
		}
		w.report(WrongType, secContents, false, "must be an object with uri and text or blob, not "+v.KindName())
		w.unrepaired++
		return nil
	}
	fix := w.checkObject(v, contentsRules)
	doc := fix
	if doc == nil {
		doc = v.Raw()
	}
	now := wire.ValueOf(doc)
	if !w.repair {
		w.checkTextOrBlob(v, doc)
		w.fillMIMEType(doc)
		return nil
	}
	doc = w.checkTextOrBlob(now, doc)
	doc = w.fillMIMEType(doc)
	if fix == nil && &doc[0] == &v.Raw()[0] {
		return nil
	}
	return doc
}

// checkTextOrBlob checks that contents have either a text or a blob.
func (w *walk) checkTextOrBlob(v wire.Value, doc wire.Raw) wire.Raw {
	text, blob := v.Get("text"), v.Get("blob")
	hasText := text.Exists() && text.Kind() != 'n' || v.Get("content").Exists()
	hasBlob := blob.Exists() && blob.Kind() != 'n' || v.Get("data").Exists() || v.Get("base64").Exists()
	switch {
	case !hasText && !hasBlob:
		w.reportMember("text", Missing, secContents, true, "is missing, and so is blob; one of them is required")
		return wire.SetMember(doc, "text", wire.Raw(`""`))
	case hasText && hasBlob:
		empty := ""
		if text.IsString("") && !blob.IsString("") {
			empty = "text"
		} else if blob.IsString("") {
			empty = "blob"
		}
		w.report(TextAndBlob, secContents, empty != "", "has text and blob; it must have one of them")
		if empty != "" {
			e := wire.NewEdit(doc)
			e.Remove(e.Root(), empty)
			return e.Bytes()
		}
	}
	return doc
}

// fillMIMEType adds a missing MIME type from the list.
func (w *walk) fillMIMEType(doc wire.Raw) wire.Raw {
	v := wire.ValueOf(doc)
	if v.Get("mimeType").Exists() {
		return doc
	}
	mime := w.checker.listedType(v.Get("uri"))
	if mime == "" {
		return doc
	}
	w.reportMember("mimeType", MissingMIMEType, secContents, true, "is missing; the list gives "+plaintext.Clip(mime, 64))
	return wire.SetMember(doc, "mimeType", wire.String(mime))
}
