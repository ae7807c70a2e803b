package catalog

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/gzipped"
	"mcpgateway/internal/wire"
)

// MetaUnavailable is the member of a list's _meta that names the upstreams whose items are
// missing or may be outdated.
const MetaUnavailable = "mcpgateway/unavailable"

// ttlStep is the step of the time to live of a list. A page is encoded again at most once per
// step.
const ttlStep = 100 * time.Millisecond

// page is a run of listed items with their encodings.
type page struct {
	start, end int
	next       string // the cursor of the next page, "" for the last one
	kept       [downlevel.ItemClasses]keptPage
}

// encoded is a page as a result. It is immutable.
type encoded struct {
	call.Result
	ttl   int64 // milliseconds
	tally downlevel.Counts
}

// freshness says for how long the lists of a view are current.
type freshness struct {
	until   time.Time // zero for not current
	private bool
}

// freshnessOf merges the freshness of parts: the earliest end counts, and one private part
// makes the lists private. A list without the items of a part must not be kept.
func freshnessOf(parts []*Part) freshness {
	var f freshness
	complete := len(parts) > 0
	for i, p := range parts {
		own := p.source.Freshness
		f.private = f.private || own.Private
		complete = complete && p.source.Down == nil
		if until := own.At.Add(own.TTL); i == 0 || until.Before(f.until) {
			f.until = until
		}
	}
	if !complete {
		f.until = time.Time{}
	}
	return f
}

// ttl returns for how many milliseconds a list may be kept.
func (f freshness) ttl(now time.Time) int64 {
	if left := f.until.Sub(now); left > 0 {
		return left.Truncate(ttlStep).Milliseconds()
	}
	return 0
}

// appendMembers appends the members of modern results for the freshness, with a comma.
func (f freshness) appendMembers(b []byte, ttl int64) []byte {
	b = append(b, `"resultType":"complete","ttlMs":`...)
	b = strconv.AppendInt(b, ttl, 10)
	if f.private {
		return append(b, `,"cacheScope":"private",`...)
	}
	return append(b, `,"cacheScope":"public",`...)
}

// paginate splits the listed items of a kind into pages. There is at least one.
func (v *View) paginate(kind call.Kind) []*page {
	var pages []*page
	listed := v.listed[kind]
	start, size := 0, 0
	for i, e := range listed {
		if i > start && (i-start == v.table.opts.PageItems || size+len(e.Raw) > v.table.opts.PageBytes) {
			pages = append(pages, &page{start: start, end: i, next: v.after(kind, i-1).String()})
			start, size = i, 0
		}
		size += len(e.Raw) + 1
	}
	return append(pages, &page{start: start, end: len(listed)})
}

// Page returns one page of a merged list as a result for clients of the revision, and what was
// changed in its items for the revision. The cursor is "" for the first page. The error is
// -32602 for a cursor of another list, and -32603 if every upstream is down or does not answer
// the list, and nothing is known: an empty list would be wrong.
func (v *View) Page(kind call.Kind, rev wire.Revision, cursor string, now time.Time) (call.Result, downlevel.Counts, *wire.Error) {
	lacking := v.lacking[kind]
	if len(v.parts) > 0 && len(lacking) == len(v.parts) && len(v.listed[kind]) == 0 {
		return call.Result{}, downlevel.Counts{}, UnavailableError(lacking)
	}
	at, err := v.position(kind, cursor)
	if err != nil {
		return call.Result{}, downlevel.Counts{}, err
	}
	i, _ := slices.BinarySearchFunc(v.pages[kind], at, func(p *page, at int) int { return p.end - at - 1 })
	i = min(i, len(v.pages[kind])-1) // the cursor is behind the last item
	p := v.pages[kind][i]
	class := downlevel.ItemClassOf(rev)
	var ttl int64
	if isModern(class) && len(lacking) == 0 { // an incomplete list must not be kept
		ttl = v.fresh.ttl(now)
	}
	if at != p.start {
		enc := v.encode(kind, class, ttl, at, p)
		return enc.Result, enc.tally, nil
	}
	kept := &p.kept[class]
	enc := kept.load()
	switch {
	case enc == nil:
		enc = v.table.pages.keep(kept, p.shared(v.encode(kind, class, ttl, at, p)))
	case enc.ttl != ttl:
		enc = v.table.pages.keep(kept, enc.withTTL(v.fresh, ttl))
	}
	return enc.Result, enc.tally, nil
}

// isModern reports whether lists of the class have the envelope of the modern era.
func isModern(class downlevel.ItemClass) bool { return class == downlevel.ItemsAsListed }

// shared returns an equal encoding of another class if one is kept, else enc.
func (p *page) shared(enc *encoded) *encoded {
	for i := range p.kept {
		if same := p.kept[i].encoded.Load(); same != nil && bytes.Equal(same.Raw, enc.Raw) {
			return same
		}
	}
	return enc
}

// withTTL returns the same page with another time to live. The rest keeps its compressed form.
func (e *encoded) withTTL(f freshness, ttl int64) *encoded {
	rest := e.Raw[e.Page.Start:]
	next := *e
	next.ttl = ttl
	next.Raw = f.appendMembers(append(make([]byte, 0, envelopeSize+len(rest)), '{'), ttl)
	next.Page = &call.Page{Start: len(next.Raw), Text: e.Page.Text}
	next.Raw = append(next.Raw, rest...)
	return &next
}

// envelopeSize is more than the members of modern results for the freshness take.
const envelopeSize = 128

// encode returns the items of the page from start on as a result.
func (v *View) encode(kind call.Kind, class downlevel.ItemClass, ttl int64, start int, p *page) *encoded {
	return v.encodeItems(kind, class, ttl, v.listed[kind][start:p.end], p.next, v.lacking[kind])
}

// encodeItems returns items as a result. next is the cursor of the next page, lacking are the
// upstreams whose items are missing. The small members come first, so that readers find
// them without parsing the items.
func (v *View) encodeItems(kind call.Kind, class downlevel.ItemClass, ttl int64, items []*Entry, next string, lacking []Unavailable) *encoded {
	size := envelopeSize + 384 + 256*len(lacking) + len(v.table.opts.ServerInfo)
	for _, e := range items {
		size += len(e.Raw) + 1
	}
	modern := isModern(class)
	b := append(make([]byte, 0, size), '{')
	if modern {
		b = v.fresh.appendMembers(b, ttl)
	}
	shared := &call.Page{Start: len(b), Text: new(gzipped.Text)}
	b = v.appendMeta(b, modern, lacking)
	if next != "" {
		b = append(b, `"nextCursor":"`...)
		b = append(b, next...)
		b = append(b, `",`...)
	}
	b = append(b, '"')
	b = append(b, listMember(kind)...)
	b = append(b, `":[`...)
	var sum downlevel.Counts
	for i, e := range items {
		if i > 0 {
			b = append(b, ',')
		}
		item, tally := downlevel.Item(class, kind, e.Raw)
		sum.Add(tally)
		b = append(b, item...)
	}
	return &encoded{call.Result{Raw: append(b, ']', '}'), Page: shared}, ttl, sum}
}

// appendMeta appends the _meta of the result and a comma, or nothing.
func (v *View) appendMeta(b []byte, modern bool, lacking []Unavailable) []byte {
	info := v.table.opts.ServerInfo
	if !modern {
		info = nil
	}
	if info == nil && len(lacking) == 0 {
		return b
	}
	b = append(b, `"_meta":{`...)
	if info != nil {
		b = wire.AppendString(b, wire.MetaServerInfo)
		b = append(b, ':')
		b = append(b, info...)
	}
	if len(lacking) > 0 {
		if info != nil {
			b = append(b, ',')
		}
		b = wire.AppendString(b, MetaUnavailable)
		b = append(b, ':')
		b = appendUnavailable(b, lacking)
	}
	return append(b, '}', ',')
}

func appendUnavailable(b []byte, list []Unavailable) []byte {
	b = append(b, '[')
	for i, u := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = u.appendMembers(b)
		b = append(b, '}')
	}
	return append(b, ']')
}

func (u Unavailable) appendMembers(b []byte) []byte {
	b = append(b, `"upstream":`...)
	b = wire.AppendString(b, u.Upstream)
	b = append(b, `,"since":`...)
	b = wire.AppendString(b, u.Since.UTC().Format(time.RFC3339))
	b = append(b, `,"reason":`...)
	return wire.AppendString(b, u.Reason)
}

// unavailable returns the part for lists from which its items are missing.
func (p *Part) unavailable(d *Down) Unavailable {
	return Unavailable{p.Upstream(), d.Since, d.Reason, d.Starting, d.Detail}
}

// Data returns the data of an error about the upstream.
func (u Unavailable) Data() wire.Raw {
	return append(u.appendMembers([]byte{'{'}), `,"retryable":true}`...)
}

// UnavailableError returns the error for a name that belongs to one of the upstreams in list,
// which must not be empty. Its data is that of the first upstream, and lists all of them if
// there are more.
func UnavailableError(list []Unavailable) *wire.Error {
	data := list[0].appendMembers([]byte{'{'})
	data = append(data, `,"retryable":true`...)
	message := fmt.Sprintf("the upstream %s is unavailable: %s", list[0].Upstream, list[0].Reason)
	if len(list) > 1 {
		data = append(data, `,"unavailable":`...)
		data = appendUnavailable(data, list)
		var each []string
		for _, u := range list {
			each = append(each, fmt.Sprintf("%s (%s)", u.Upstream, u.Reason))
		}
		message = "these upstreams are unavailable: " + strings.Join(each, ", ")
	}
	err := wire.Errorf(wire.CodeInternal, "%s", message).WithData(append(data, '}'))
	if len(list) == 1 {
		err.Detail = list[0].Detail
	}
	return err
}

func listMember(kind call.Kind) string {
	return [call.Kinds]string{call.Tool: "tools", call.Resource: "resources", call.Template: "resourceTemplates", call.Prompt: "prompts"}[kind]
}
