package catalog

import (
	"cmp"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
)

// Bounds on the search for similar names, which any client can cause.
const (
	maxSimilar      = 3    // names returned
	maxDistance     = 3    // edits between similar names
	lettersEdit     = 4    // letters of a name per edit; one edit is always allowed
	maxCompared     = 1000 // names whose distance is computed
	maxSimilarQuery = 128  // bytes of the longest name that is searched for
	minAbbreviation = 4    // bytes of the shortest beginning of a name that stands for it
)

// SimilarNames returns up to three public names of items that the caller may have meant, the
// most similar first: names of items with this native name, or that another view or an override gives
// another name, names that begin alike and differ in a few characters, and names of tools and prompts
// that public is the beginning of.
// A common prefix of the upstream is not compared.
func (v *View) SimilarNames(kind call.Kind, public string) []string {
	if public == "" || len(public) > maxSimilarQuery {
		return nil
	}
	type near struct {
		name     string
		distance int
	}
	var found []near
	compared, abbreviated := 0, 0
	for _, e := range v.Usable(kind) {
		lead := e.part.naming.NamePrefix()
		if e.Native == public || e.Ordinary().Public == public || beginsWith(public, lead) && public[len(lead):] == e.Native {
			found = append(found, near{e.Public, 0})
			continue
		}
		if abbreviated < maxSimilar && !isURI(kind) &&
			(abbreviates(public, e.Native) || beginsWith(public, lead) && abbreviates(public[len(lead):], strings.TrimPrefix(e.Public, lead))) {
			abbreviated++
			found = append(found, near{e.Public, maxDistance + 1})
			continue
		}
		if compared == maxCompared || max(len(e.Public)-len(public), len(public)-len(e.Public)) > maxDistance {
			continue
		}
		compared++
		asked, has := strings.ToLower(public), strings.ToLower(e.Public)
		if lead = strings.ToLower(lead); !isURI(kind) && strings.HasPrefix(asked, lead) {
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

// abbreviates reports whether a name is the beginning of another that is longer by more than a few characters.
func abbreviates(name, whole string) bool {
	return len(name) >= minAbbreviation && len(whole) > len(name)+maxDistance && beginsWith(whole, name)
}

// beginsWith reports whether a text begins with another, whether in upper or lower case.
func beginsWith(text, start string) bool {
	return len(text) >= len(start) && strings.EqualFold(text[:len(start)], start)
}
