package wire

import "slices"

// Revision is a dated version of the Model Context Protocol.
type Revision string

// The revisions that the gateway speaks on both sides.
const (
	Rev20241105 Revision = "2024-11-05"
	Rev20250326 Revision = "2025-03-26"
	Rev20250618 Revision = "2025-06-18"
	Rev20251125 Revision = "2025-11-25"
	Rev20260728 Revision = "2026-07-28"
)

// LatestLegacy is the revision that the gateway proposes in initialize. LatestModern is the
// one that it puts into the metadata of each request.
const (
	LatestLegacy = Rev20251125
	LatestModern = Rev20260728
)

var (
	legacyRevisions = []Revision{Rev20251125, Rev20250618, Rev20250326, Rev20241105}
	modernRevisions = []Revision{Rev20260728}
)

// LegacyRevisions lists the revisions with an initialize handshake, newest
// first. The caller owns the slice.
func LegacyRevisions() []Revision { return slices.Clone(legacyRevisions) }

// ModernRevisions lists the revisions with per-request metadata, newest first.
// The caller owns the slice.
func ModernRevisions() []Revision { return slices.Clone(modernRevisions) }

// Era is a family of revisions with the same kind of connection.
type Era uint8

const (
	// EraUnknown is the era of a revision that the gateway does not speak.
	EraUnknown Era = iota
	// EraLegacy revisions begin with initialize and have sessions.
	EraLegacy
	// EraModern revisions are stateless: every request names its revision.
	EraModern
)

// String returns "legacy", "modern" or "unknown".
func (e Era) String() string {
	switch e {
	case EraLegacy:
		return "legacy"
	case EraModern:
		return "modern"
	default:
		return "unknown"
	}
}

// Era returns the era that r belongs to, EraUnknown if the gateway does not speak it.
//
// It asks for the revisions of new peers first: a call asks a dozen times.
func (r Revision) Era() Era {
	switch {
	case r == LatestModern:
		return EraModern
	case r == LatestLegacy, slices.Contains(legacyRevisions, r):
		return EraLegacy
	case slices.Contains(modernRevisions, r):
		return EraModern
	default:
		return EraUnknown
	}
}

// AtLeast reports whether r is base or newer. Revisions are ISO dates, which sort as text.
func (r Revision) AtLeast(base Revision) bool { return r >= base }

// HasBatches reports whether a message may be an array of messages, which
// only 2025-03-26 allows.
func (r Revision) HasBatches() bool { return r == Rev20250326 }

// HasVersionHeader reports whether requests after initialize carry the
// MCP-Protocol-Version header (2025-06-18, basic/transports).
func (r Revision) HasVersionHeader() bool { return r.AtLeast(Rev20250618) }

// HasPriming reports whether an event stream begins with an event that has an id and no data,
// so that a client can resume before the first message (2025-11-25, basic/transports).
func (r Revision) HasPriming() bool { return r == Rev20251125 }
