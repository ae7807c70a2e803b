package router

import (
	"cmp"
	"encoding/base64"
	"errors"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/imagescale"
	"mcpgateway/internal/results"
	"mcpgateway/internal/wire"
)

// ResultRules say what becomes of the results of tools in a profile.
type ResultRules struct {
	// Max is how many bytes the texts of a result may have before it is shortened, 0 for any
	// number.
	Max int
	// TTL is for how long the whole result is kept.
	TTL time.Duration
	// CutStructured says that structuredContent is shortened too if the client sees an
	// outputSchema, by which it may validate it.
	CutStructured bool
	// ImageSide is how many pixels the longest side of an image may have before it is scaled, 0
	// for any number.
	ImageSide int
}

// shorten replaces a long result of a tool by its beginning and a link to the whole, and scales
// its images, as the rules of the profile say. It leaves results of inner calls alone: their
// caller works with them, and the result of the outer call passes the same rules.
//
// Resources and prompts stay whole: a resource is read by a program or chosen by a user, who
// count on all of it, and an application in HTML is worth nothing in part.
func (f *forwarding) shorten(result wire.Raw) (wire.Raw, error) {
	if f.routes.Results == nil || f.call.Depth > 0 || f.itemMethod() != wire.MethodToolsCall || f.target.Public == results.ReadTool && f.target.Part.Own() {
		return result, nil
	}
	rules, ok := f.routes.Results[f.call.Principal.Profile]
	if !ok {
		return result, nil
	}
	at := f.itemResult(result)
	if !at.Exists() {
		return result, nil
	}
	short := at.Raw()
	if rules.ImageSide > 0 {
		short = f.scaleImages(short, rules.ImageSide)
	}
	if rules.Max > 0 && len(short) > rules.Max {
		short = f.keep(short, &rules)
	}
	return f.replaceItemResult(result, at, short), nil
}

// keep has a long result kept and returns what the client gets in its place. If it cannot be
// kept it is returned as it is, so that nothing is lost.
func (f *forwarding) keep(result wire.Raw, rules *ResultRules) wire.Raw {
	s := results.Shorten(f.result.Long.ValueOf(result), rules.Max, !rules.CutStructured && f.clientValidates(result))
	if s == nil {
		return result
	}
	s.Document.Items = f.usedItems()
	outcome := shortenedKept
	id, err := f.router.results.Put(f.ctx, ownerOf(f.call.Principal), s.Document)
	switch {
	case errors.Is(err, results.ErrTooLarge):
		outcome = shortenedTooLarge
	case err != nil:
		outcome = shortenedFailed
	}
	f.router.metrics.shortened.WithLabelValues(profileLabel(f.call.Principal), outcome).Inc()
	if err != nil {
		f.router.ratelog.Warn("a long result is sent whole, because it cannot be kept", zap.String("request", f.call.ID), zap.String("item", f.log.item), zap.Error(err))
		return result
	}
	return s.Result(results.Link{URI: results.Scheme + "//" + id, Tool: f.target.Public, TTL: rules.TTL})
}

// ownerOf returns the owner of results that are kept for a principal, in this profile only.
func ownerOf(p *call.Principal) results.Owner {
	return results.Owner{Identity: p.Identity(), Profile: p.Profile}
}

// clientValidates reports whether the client may hold the structuredContent of a result against
// an outputSchema: its list has one for the tool, and its revision knows both.
func (f *forwarding) clientValidates(result wire.Raw) bool {
	rev := f.call.Client.Revision
	if f.target.Entry == nil || !rev.AtLeast(wire.Rev20250618) || !wire.ValueOf(f.target.Entry.Raw).Get("outputSchema").Exists() {
		return false
	}
	return rev.Era() == wire.EraModern || f.result.Long.ValueOf(result).Get("structuredContent").Kind() == '{' // see package downlevel
}

// scaleImages makes the images of a result smaller.
func (f *forwarding) scaleImages(result wire.Raw, side int) wire.Raw {
	root := f.result.Long.ValueOf(result)
	if !root.MayContain("image") {
		return result
	}
	e := wire.NewEdit(result)
	for m := range root.Members() {
		if !m.Is("content") {
			continue
		}
		for el := range m.Value.Elements() {
			if el.Get("type").IsString("image") {
				f.scaleImage(e, el, side)
			}
		}
	}
	return e.Bytes()
}

// scaleImage makes the image of a block smaller. One that is no image, or cannot be scaled, stays
// as it is.
func (f *forwarding) scaleImage(e *wire.Edit, block wire.Value, side int) {
	data := block.Get("data")
	raw, err := base64.StdEncoding.DecodeString(data.Str())
	if err != nil {
		return
	}
	scaled, mime, ok := imagescale.Scale(raw, side)
	if !ok {
		return
	}
	text := make(wire.Raw, 0, base64.StdEncoding.EncodedLen(len(scaled))+2)
	text = append(base64.StdEncoding.AppendEncode(append(text, '"'), scaled), '"')
	e.Replace(data, text)
	e.Set(block, "mimeType", wire.String(mime))
	f.router.metrics.scaled.WithLabelValues(profileLabel(f.call.Principal)).Inc()
}

// The outcomes of a result over max_result.
const (
	shortenedKept     = "kept"      // it was shortened, with a link to the whole
	shortenedTooLarge = "too_large" // it was sent whole, because it is too large to be kept
	shortenedFailed   = "failed"    // it was sent whole, because the store failed
)

// profileLabel is how metrics name the profile of a principal.
func profileLabel(p *call.Principal) string { return cmp.Or(p.Profile, "default") }
