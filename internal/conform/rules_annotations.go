package conform

import (
	"strconv"
	"strings"
	"time"

	"mcpgateway/internal/wire"
)

var annotationRules = []rule{
	{name: "audience", section: secAnnotation, check: checkAudience},
	{name: "priority", section: secAnnotation, check: checkPriority},
	{name: "lastModified", section: secAnnotation, check: checkTime, aliases: []string{"last_modified"}},
}

// checkAnnotations checks the annotations of contents and resources.
func checkAnnotations(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '{' {
		w.report(InvalidAnnotation, secAnnotation, true, "must be an object, not "+v.KindName())
		return removed
	}
	return w.checkObject(v, annotationRules)
}

func isRole(v wire.Value) bool { return v.IsString("user") || v.IsString("assistant") }

func checkAudience(w *walk, v wire.Value) wire.Raw {
	if v.Kind() == '[' {
		return w.checkArray(v, func(w *walk, el wire.Value) wire.Raw {
			if isRole(el) {
				return nil
			}
			w.report(InvalidAnnotation, secAnnotation, true, "must be user or assistant")
			return removed
		})
	}
	w.report(InvalidAnnotation, secAnnotation, true, "must be an array of user and assistant, not "+v.KindName())
	if isRole(v) {
		return append(append(wire.Raw{'['}, v.Raw()...), ']')
	}
	return removed
}

func checkPriority(w *walk, v wire.Value) wire.Raw {
	text := string(v.Raw())
	if s, ok := v.Text(); ok {
		text = strings.TrimSpace(s)
	}
	n, err := strconv.ParseFloat(text, 64)
	if v.Kind() == '0' && err == nil && n >= 0 && n <= 1 {
		return nil
	}
	w.report(InvalidAnnotation, secAnnotation, true, "must be a number from 0 to 1")
	switch {
	case v.Kind() != '0' && v.Kind() != '"' || err != nil || n != n:
		return removed
	case n > 1:
		return wire.Raw("1")
	case n < 0:
		return wire.Raw("0")
	}
	return wire.Raw(strconv.FormatFloat(n, 'g', -1, 64))
}

// timeFormats are formats of times that upstreams send instead of RFC 3339.
var timeFormats = []string{
	"2006-01-02T15:04:05", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00", "2006-01-02T15:04",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700 MST", "2006-01-02 15:04:05", "2006-01-02",
	time.RFC1123, time.RFC1123Z, time.ANSIC, time.UnixDate,
}

// checkTime checks a time in ISO 8601, in the format of RFC 3339.
func checkTime(w *walk, v wire.Value) wire.Raw {
	text, ok := v.Text()
	if ok && len(text) <= 64 {
		if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return nil
		}
	}
	w.report(InvalidAnnotation, secAnnotation, true, "must be an ISO 8601 date and time with an offset, such as 2025-01-12T15:00:58Z")
	if n, isNumber := v.Int(); isNumber {
		if n > 1e11 { // milliseconds, as in JavaScript
			n /= 1000
		}
		if n >= 0 && n < 1e11 {
			return wire.String(time.Unix(n, 0).UTC().Format(time.RFC3339))
		}
		return removed
	}
	if len(text) <= 64 {
		for _, form := range timeFormats {
			if t, err := time.Parse(form, strings.TrimSpace(strings.ToUpper(text))); err == nil {
				return wire.String(t.Format(time.RFC3339Nano))
			}
			if t, err := time.Parse(form, strings.TrimSpace(text)); err == nil {
				return wire.String(t.Format(time.RFC3339Nano))
			}
		}
	}
	return removed
}

var iconRules = []rule{
	{name: "src", required: true, section: secIcons, check: checkString(secIcons), aliases: []string{"url", "href"}},
	{name: "mimeType", section: secIcons, check: checkMIMEType, aliases: []string{"mime_type"}},
	{name: "sizes", section: secIcons, check: checkIconSizes},
	{name: "theme", section: secIcons, check: checkEnum(secIcons, "light", "dark")},
}

// checkIcons checks icons. Repair removes icons that cannot be displayed.
func checkIcons(w *walk, v wire.Value) wire.Raw {
	if v.Kind() == '{' {
		w.report(InvalidIcon, secIcons, true, "must be an array of icons, not an object")
		return append(append(wire.Raw{'['}, checkIcon(w, v)...), ']')
	}
	if v.Kind() != '[' {
		w.report(InvalidIcon, secIcons, true, "must be an array of icons, not "+v.KindName())
		return removed
	}
	return w.checkArray(v, func(w *walk, el wire.Value) wire.Raw {
		fix := checkIcon(w, el)
		if len(fix) > 0 && &fix[0] == &el.Raw()[0] {
			return nil
		}
		return fix
	})
}

// checkIcon returns the repaired icon, or the icon itself if it is valid.
func checkIcon(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '{' {
		w.report(InvalidIcon, secIcons, true, "must be an object with src, not "+v.KindName())
		return removed
	}
	fix, ok := w.checkObjectOr(v, iconRules)
	if !ok {
		return removed
	}
	if fix != nil {
		return fix
	}
	return v.Raw()
}

func checkIconSizes(w *walk, v wire.Value) wire.Raw {
	if v.Kind() == '[' {
		return w.checkArray(v, func(w *walk, el wire.Value) wire.Raw {
			if el.Kind() == '"' {
				return nil
			}
			w.report(InvalidIcon, secIcons, true, "must be a string such as 48x48 or any")
			return removed
		})
	}
	w.report(InvalidIcon, secIcons, true, "must be an array of strings such as 48x48 or any, not "+v.KindName())
	text, ok := v.Text()
	if !ok {
		return removed
	}
	out := wire.Raw{'['}
	for i, size := range strings.Fields(text) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, wire.String(size)...)
	}
	return append(out, ']')
}
