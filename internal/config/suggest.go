package config

import "strings"

// nearest is the known word that was probably meant, or "". A word that differs
// only in case, _ and - is meant surely, others within a third of their letters.
func nearest(word string, known []string) string {
	if len(word) > 64 {
		return ""
	}
	folded := fold(word)
	best, least := "", 1+min(3, max(1, len(folded)/3))
	for _, k := range known {
		kf := fold(k)
		if kf == folded {
			return k
		}
		if d := distance(folded, kf); d < least && d < len(kf) {
			best, least = k, d
		}
	}
	return best
}

var unjoined = strings.NewReplacer("_", "", "-", "")

func fold(s string) string { return strings.ToLower(unjoined.Replace(s)) }

// distance is the number of insertions, deletions, substitutions and swaps of
// neighbors that lead from a to b.
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
