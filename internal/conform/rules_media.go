package conform

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

func mediaRules(kind string) []rule {
	return []rule{
		{
			name: "data", required: true, section: secToolResult, check: checkBase64, aliases: []string{"blob", "base64"},
		},
		{
			name: "mimeType", required: true, section: secToolResult, check: checkMediaType(kind),
			aliases: []string{"mime_type", "mimetype", "mediaType", "media_type", "format"},
			defaultValue: func(_ *walk, obj wire.Value) (wire.Raw, string) {
				data, mime, _ := content.RepairBase64(obj.Get("data").Str())
				if !isMIMEType(mime) {
					mime = content.SniffMIMEType(data)
				}
				return wire.String(mime), ""
			},
		},
	}
}

// checkMediaType returns the check of the MIME type of an image or audio block.
func checkMediaType(kind string) func(*walk, wire.Value) wire.Raw {
	return func(w *walk, v wire.Value) wire.Raw {
		text, ok := v.Text()
		if ok && isMIMEType(text) {
			return nil
		}
		w.report(InvalidMIMEType, secToolResult, true, fmt.Sprintf("%q is not a MIME type; it must look like %s/…", plaintext.Clip(text, 64), kind))
		switch name := strings.ToLower(strings.TrimSpace(text)); {
		case isMIMEType(name):
			return wire.String(name)
		case name == "jpg":
			return wire.String(kind + "/jpeg")
		case isMIMEName(name):
			return wire.String(kind + "/" + name)
		}
		return removed
	}
}

// checkBase64 checks the data of an image or audio block.
func checkBase64(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '"' {
		w.report(WrongType, secToolResult, false, "must be a string of Base64, not "+v.KindName())
		w.unrepaired++
		return nil
	}
	if content.IsBase64(v) {
		return nil
	}
	text := v.Str()
	data, _, ok := content.RepairBase64(text)
	w.report(InvalidBase64, secToolResult, ok, wordsOfBase64(text))
	if !ok {
		w.unrepaired++
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
		return "has the URL-safe alphabet; it must have that of RFC 4648, section 4"
	case strings.ContainsAny(text, " \t\r\n"):
		return "contains white space; Base64 must not"
	default:
		return "is not Base64, or lacks its padding (RFC 4648, section 4)"
	}
}

// asLink turns an image or audio block whose data is a URL into a resource link.
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
		w.reportMember(name, InvalidBase64, secToolResult, true, "is a URL; data must be the Base64 of the bytes, and resource_link is for URLs")
		if !w.repair {
			return removed // further violations would repeat this one
		}
		base := path.Base(strings.TrimRight(strings.SplitN(text, "?", 2)[0], "/"))
		link := wire.Raw(`{"type":"resource_link"}`)
		link = wire.SetMember(link, "uri", wire.String(w.checker.public(text)))
		link = wire.SetMember(link, "name", wire.String(base))
		if mime := v.Get("mimeType"); isMIMEType(mime.Str()) {
			link = wire.SetMember(link, "mimeType", mime.Raw())
		}
		for _, name := range []string{"annotations", "_meta"} {
			if m := v.Get(name); m.Kind() == '{' {
				link = wire.SetMember(link, name, m.Raw())
			}
		}
		if fix := w.checkObject(wire.ValueOf(link), linkRules); fix != nil {
			return fix
		}
		return link
	}
	return nil
}

func isMedia(kind wire.Value) bool { return kind.IsString("image") || kind.IsString("audio") }

// fromSource converts a block from the form of the Anthropic API, with source.data and
// source.media_type.
func fromSource(w *walk, v, kind wire.Value) wire.Raw {
	if !isMedia(kind) {
		return nil
	}
	source := v.Get("source")
	if source.Get("data").Kind() != '"' || v.Get("data").Exists() {
		return nil
	}
	w.reportMember("source", Misplaced, secToolResult, true, "is not a member of the specification; data and mimeType stand beside type")
	if !w.repair {
		return removed
	}
	e := wire.NewEdit(v.Raw())
	e.Remove(e.Root(), "source")
	block := wire.SetMember(e.Bytes(), "data", source.Get("data").Raw())
	if mime := source.Get("media_type"); mime.Exists() && !v.Get("mimeType").Exists() {
		block = wire.SetMember(block, "mimeType", mime.Raw())
	}
	rules, _ := rulesOf(kind)
	fix, ok := w.checkObjectOr(wire.ValueOf(block), rules)
	switch {
	case !ok:
		return content.TextBlock(string(block))
	case fix == nil:
		return block
	}
	return fix
}

// mayBeURL reports whether a string may begin with a scheme. It is a quick check, since
// data is long.
func mayBeURL(v wire.Value) bool {
	raw := v.Raw()
	return v.Kind() == '"' && len(raw) > 8 && (raw[1] == '\\' || bytes.IndexByte(raw[:8], ':') > 0)
}

// isURL reports whether a text is a URL of a scheme that leads to bytes.
func isURL(text string) bool {
	for _, scheme := range []string{"http://", "https://", "file://"} {
		if len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
			return isURI(text)
		}
	}
	return false
}
