package conform

import (
	"fmt"
	"strings"

	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Rules for members of every block.
var (
	annotationsRule = rule{name: "annotations", section: secAnnotation, check: checkAnnotations}
	metaRule        = rule{name: "_meta", section: secMeta, check: checkMeta}
	audienceRule    = rule{name: "audience", section: secAnnotation, parent: "annotations"}
	priorityRule    = rule{name: "priority", section: secAnnotation, parent: "annotations"}
	modifiedRule    = rule{name: "lastModified", section: secAnnotation, parent: "annotations"}
	isErrorRule     = rule{name: "isError", section: secToolResult, check: moveIsError}
)

func blockRules(own ...rule) []rule {
	return append(own, annotationsRule, metaRule, audienceRule, priorityRule, modifiedRule, isErrorRule, rule{name: "type"})
}

var textRules = blockRules(rule{
	name: "text", required: true, section: secToolResult, check: checkText(secToolResult), aliases: []string{"content", "value"},
	defaultValue: func(*walk, wire.Value) (wire.Raw, string) { return wire.Raw(`""`), "" },
})

// Set by init, since the rules refer to functions that use them.
var imageRules, audioRules, embeddedRules, linkRules []rule

func init() {
	imageRules = blockRules(mediaRules("image")...)
	audioRules = blockRules(mediaRules("audio")...)
	embeddedRules = blockRules(
		rule{name: "resource", required: true, section: secContents, check: checkContents},
		rule{name: "uri", section: secContents, parent: "resource", isURI: true},
		rule{name: "text", section: secContents, parent: "resource"},
		rule{name: "blob", section: secContents, parent: "resource"},
		rule{name: "mimeType", section: secContents, parent: "resource"},
	)
}

// moveIsError moves the isError of a block to the result.
func moveIsError(w *walk, v wire.Value) wire.Raw {
	w.report(Misplaced, secToolResult, true, "is misplaced; it must be in the result")
	if v.Kind() == 't' {
		w.isError = wire.Raw("true")
	}
	return removed
}

// checkContent checks the content of a tool's result.
func checkContent(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '[':
		return w.checkArray(v, checkBlock)
	case '{', '"':
		w.report(WrongType, secToolResult, true, "must be an array of blocks, not "+v.KindName())
		el := checkBlock(w, v)
		if el == nil {
			el = v.Raw()
		}
		return append(append(wire.Raw{'['}, el...), ']')
	default:
		w.report(WrongType, secToolResult, true, "must be an array of blocks, not "+v.KindName())
		return append(append(wire.Raw{'['}, content.TextBlock(string(v.Raw()))...), ']')
	}
}

// checkBlock checks a content block. A block that no client could read becomes a text block
// with its JSON, so that nothing is lost.
func checkBlock(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '{':
	case '"':
		w.report(WrongType, secToolResult, true, "must be a block such as {\"type\":\"text\",\"text\":…}, not a string")
		return content.TextBlock(v.Str())
	default:
		w.report(WrongType, secToolResult, true, "must be a block, not "+v.KindName())
		return content.TextBlock(string(v.Raw()))
	}
	if one := w.withOneType(v); one != nil {
		if fix := checkBlock(w, wire.ValueOf(one)); fix != nil {
			return fix
		}
		return one
	}
	kind := v.Get("type")
	rules, since := rulesOf(kind)
	if rules == nil {
		return w.unknownBlock(v, kind)
	}
	if since != "" && w.rev != "" && !w.rev.AtLeast(since) {
		w.reportMember("type", NewerThanRevision, secToolResult, false, fmt.Sprintf("%s came with revision %s", kind.Str(), since))
	}
	for _, other := range []func(*walk, wire.Value, wire.Value) wire.Raw{asLink, fromSource} {
		if fix := other(w, v, kind); fix != nil {
			return fix
		}
	}
	fix, ok := w.checkObjectOr(v, rules)
	if !ok {
		return content.TextBlock(string(v.Raw()))
	}
	return fix
}

// typeRule is the rule for which withOneType looks.
var typeRule = []rule{{name: "type"}}

// withOneType returns a block without all but the last of its types, nil if it has one at
// most or nothing is repaired. A block is checked by the type that it keeps.
func (w *walk) withOneType(v wire.Value) wire.Raw {
	if !w.repair {
		return nil
	}
	n := 0
	for m := range v.Members() {
		if m.Key.IsString("type") {
			n++
		}
	}
	if n < 2 {
		return nil
	}
	return joinParts(w.duplicates(v, typeRule, 1))
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

// unknownBlock repairs a block of an unknown type.
func (w *walk) unknownBlock(v, kind wire.Value) wire.Raw {
	guess := guessType(v, kind)
	switch {
	case !kind.Exists() || kind.Kind() == 'n':
		w.reportMember("type", Missing, secToolResult, true, "is missing; it says what the block is")
	case guess != "":
		w.reportMember("type", InvalidValue, secToolResult, true, fmt.Sprintf("%q is not a block type; did you mean %q?", plaintext.Clip(kind.Str(), 32), guess))
	default:
		w.reportMember("type", UnknownBlock, secToolResult, true, fmt.Sprintf("%q is not a block type; it must be text, image, audio, resource or resource_link", plaintext.Clip(kind.Str(), 32)))
	}
	if !w.repair {
		return nil
	}
	if guess == "" {
		return content.TextBlock(string(v.Raw()))
	}
	named := w.checker.rewrittenBlock(wire.SetMember(v.Raw(), "type", wire.String(guess)))
	if fix := checkBlock(w, wire.ValueOf(named)); fix != nil {
		return fix
	}
	return named
}

// guessType returns the only possible type of a block whose type is missing or wrong, ""
// if there are several.
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
