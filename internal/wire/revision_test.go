package wire

import (
	"slices"
	"testing"
)

func TestRevisions(t *testing.T) {
	for _, tc := range []struct {
		revision                   Revision
		era                        Era
		text                       string
		batches, header, isPriming bool
	}{
		{Rev20241105, EraLegacy, "legacy", false, false, false},
		{Rev20250326, EraLegacy, "legacy", true, false, false},
		{Rev20250618, EraLegacy, "legacy", false, true, false},
		{Rev20251125, EraLegacy, "legacy", false, true, true},
		{Rev20260728, EraModern, "modern", false, true, false},
		{"2024-10-07", EraUnknown, "unknown", false, false, false},
		{"", EraUnknown, "unknown", false, false, false},
	} {
		r := tc.revision
		if r.Era() != tc.era || r.Era().String() != tc.text || r.HasBatches() != tc.batches || r.HasVersionHeader() != tc.header || r.HasPriming() != tc.isPriming {
			t.Errorf("%q: era %v, batches %v, version header %v, priming %v; want %+v",
				r, r.Era(), r.HasBatches(), r.HasVersionHeader(), r.HasPriming(), tc)
		}
	}
	if !Rev20250618.AtLeast(Rev20250618) || !Rev20260728.AtLeast(Rev20251125) || Rev20241105.AtLeast(Rev20250326) {
		t.Error("revisions do not order by date")
	}
}

func TestRevisionListsAreNewestFirstAndOwned(t *testing.T) {
	for name, list := range map[string]func() []Revision{"legacy": LegacyRevisions, "modern": ModernRevisions} {
		got := list()
		descending := slices.Sorted(slices.Values(got))
		slices.Reverse(descending)
		if !slices.Equal(got, descending) {
			t.Errorf("%s: %v is not newest first", name, got)
		}
		got[0] = "changed"
		if list()[0] == "changed" {
			t.Errorf("%s: a caller changed the package's list", name)
		}
	}
	if LegacyRevisions()[0] != LatestLegacy || ModernRevisions()[0] != LatestModern {
		t.Error("the latest revision is not the first of its list")
	}
}
