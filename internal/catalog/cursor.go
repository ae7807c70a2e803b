package catalog

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// cursor is a place in a merged list of one profile: after the item that was delivered last.
// It contains how that item sorts instead of an offset, so it is valid in later tables. It
// grants no rights: a forged cursor leads to a place in the list of its sender.
type cursor struct {
	profile  string // "" for the default profile
	kind     call.Kind
	part     int    // the index of the part among those that the caller may know
	ordinal  int    // the index of the item among the listed ones of its part
	hash     uint64 // of the public name
	upstream string
}

// The first byte of a cursor is its form.
const (
	cursorForm        = 1
	cursorFormProfile = 2   // a digest of the profile's name follows the kind
	maxCursor         = 128 // bytes of text
)

func hashOf(public string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(public))
	return h.Sum64()
}

func (c cursor) String() string {
	b := c.appendBegin(nil)
	b = binary.AppendUvarint(b, uint64(c.part))
	b = binary.AppendUvarint(b, uint64(c.ordinal))
	b = binary.BigEndian.AppendUint64(b, c.hash)
	b = append(b, c.upstream...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// appendBegin appends what all cursors of one kind of list in one profile begin with.
func (c cursor) appendBegin(b []byte) []byte {
	if c.profile == "" {
		return append(b, cursorForm, byte(c.kind))
	}
	return binary.BigEndian.AppendUint64(append(b, cursorFormProfile, byte(c.kind)), hashOf(c.profile))
}

// parseCursor parses a cursor for a list of this kind in a profile.
func parseCursor(profile string, kind call.Kind, text string) (cursor, bool) {
	c := cursor{profile: profile, kind: kind}
	if len(text) > maxCursor {
		return c, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	begin := cursor{profile: profile, kind: kind}.appendBegin(nil)
	if err != nil || !bytes.HasPrefix(b, begin) {
		return c, false
	}
	b = b[len(begin):]
	for _, field := range []*int{&c.part, &c.ordinal} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > 1<<31 {
			return c, false
		}
		*field, b = int(n), b[size:]
	}
	if len(b) < 8 {
		return c, false
	}
	c.hash, c.upstream = binary.BigEndian.Uint64(b), string(b[8:])
	return c, true
}

// after returns the cursor of the place after the listed item i.
func (v *View) after(kind call.Kind, i int) cursor {
	e := v.listed[kind][i]
	return cursor{
		profile: v.table.profileName(), kind: kind, part: max(0, slices.Index(v.parts, e.part)), ordinal: i - v.starts[kind][e.part.index],
		hash: hashOf(e.Public), upstream: e.part.Upstream(),
	}
}

// locate returns the index of the listed item after the cursor. If the item of the cursor is
// gone, it is the item that now has its place; if the upstream is gone, the first item of
// the upstream that now has its place.
func (v *View) locate(c cursor) int {
	starts := v.starts[c.kind]
	p := v.Part(c.upstream)
	if c.upstream == "" {
		p = v.table.own
	}
	switch {
	case p != nil:
	case c.part < len(v.parts):
		return starts[v.parts[c.part].index]
	default:
		return starts[len(starts)-1]
	}
	start, end := starts[p.index], starts[p.index+1]
	items := v.listed[c.kind][start:end]
	if c.ordinal < len(items) && hashOf(items[c.ordinal].Public) == c.hash {
		return start + c.ordinal + 1
	}
	for i, e := range items {
		if hashOf(e.Public) == c.hash {
			return start + i + 1
		}
	}
	return start + min(c.ordinal, len(items))
}

// position returns the index of the first item of the requested page, 0 without a cursor.
func (v *View) position(kind call.Kind, text string) (int, *wire.Error) {
	if text == "" {
		return 0, nil
	}
	c, ok := parseCursor(v.table.profileName(), kind, text)
	if !ok {
		return 0, wire.Errorf(wire.CodeInvalidParams, "invalid cursor: it must be the nextCursor of an earlier page of the same list")
	}
	return v.locate(c), nil
}
