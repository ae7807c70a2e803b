package plaintext

import "strings"

// Nearest is the known word that the user probably meant, or "": a word that differs only in case, _ and
// -, or the nearest within a third of its letters.
func Nearest(word string, known []string) string {
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
		if d := EditDistance(folded, kf, least); d < least && d < len(kf) {
			best, least = k, d
		}
	}
	return best
}

var unjoined = strings.NewReplacer("_", "", "-", "")

func fold(s string) string { return strings.ToLower(unjoined.Replace(s)) }
