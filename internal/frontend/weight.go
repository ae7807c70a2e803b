package frontend

import "strings"

// weightOf returns the weight among the parameters of an item of Accept or Accept-Encoding
// in thousandths (RFC 9110, section 12.4.2), 1000 if there is none, and whether there are
// other parameters. It reports false for a weight that is malformed.
func weightOf(params string) (weight int, others, valid bool) {
	weight, valid = 1000, true
	for param := range strings.SplitSeq(params, ";") {
		switch name, value, _ := strings.Cut(param, "="); {
		case strings.EqualFold(strings.TrimSpace(name), "q"):
			weight, valid = parseWeight(strings.TrimSpace(value))
		case strings.TrimSpace(param) != "":
			others = true
		}
	}
	return weight, others, valid
}

func parseWeight(value string) (weight int, valid bool) {
	whole, digits, _ := strings.Cut(value, ".")
	if whole != "0" && whole != "1" || len(digits) > 3 {
		return 0, false
	}
	weight = int(whole[0]-'0') * 1000
	for i, unit := 0, 100; i < len(digits); i, unit = i+1, unit/10 {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		weight += int(digits[i]-'0') * unit
	}
	return min(weight, 1000), true
}
