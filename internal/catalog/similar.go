package catalog

import (
	"cmp"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
)

// Bounds on the search for near names, which any client can set off.
const (
	maxSimilar      = 3    // names returned
	maxDistance     = 3    // edits between names that are near
	lettersEdit     = 4    // letters of a name for each edit, one at least
	maxCompared     = 1000 // names whose distance is computed
	maxSimilarQuery = 128  // bytes of a name that is searched for at all
)

// SimilarNames returns up to three public names that the caller may have meant, the
// nearest first: those of items with this native name, and those that differ in
// a few characters and begin alike. What a prefix has in common counts for nothing:
// where both names have the same, what follows is compared. All are names that the
// view lists.
func (v *View) SimilarNames(kind call.Kind, public string) []string {
	if public == "" || len(public) > maxSimilarQuery {
		return nil
	}
	type near struct {
		name     string
		distance int
	}
	var found []near
	compared := 0
	for _, e := range v.listed[kind] {
		if e.Native == public {
			found = append(found, near{e.Public, 0})
			continue
		}
		if compared == maxCompared || max(len(e.Public)-len(public), len(public)-len(e.Public)) > maxDistance {
			continue
		}
		compared++
		asked, has := strings.ToLower(public), strings.ToLower(e.Public)
		if lead := strings.ToLower(e.part.naming.NamePrefix()); !isURI(kind) && strings.HasPrefix(asked, lead) {
			asked, has = asked[len(lead):], strings.TrimPrefix(has, lead)
		}
		most := min(maxDistance, max(1, min(len(asked), len(has))/lettersEdit))
		if asked == "" || has == "" || asked[0] != has[0] {
			continue
		}
		if d := plaintext.EditDistance(asked, has, maxDistance); d <= most {
			found = append(found, near{e.Public, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, n := range found[:min(maxSimilar, len(found))] {
		names = append(names, n.name)
	}
	return names
}
