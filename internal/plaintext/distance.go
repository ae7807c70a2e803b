package plaintext

// EditDistance returns how many insertions, deletions, substitutions and exchanges of
// neighbors lead from a to b, in bytes. If it is more than limit, the result is any number
// over limit.
func EditDistance(a, b string, limit int) int {
	// The rows of the table of the distances between the beginnings of a and b: the
	// one before the last, the last, and the one that is being filled.
	older, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		best := row[0]
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
			best = min(best, row[j+1])
		}
		if best > limit {
			return best
		}
		older, last, row = last, row, older
	}
	return last[len(b)]
}
