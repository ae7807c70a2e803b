package console

import (
	"fmt"
	"io"
	"strings"
)

const (
	diffContext = 2 // the unchanged lines before and after a change
	diffFolds   = 8 // the lines of the terminal for one line that is wider
)

// Diff writes the lines in which after differs from before: the lines between the first and the last difference,
// with - and +, and a few lines around. It folds changed lines at a number of columns, so that they show the whole change if it is
// not very long, and cuts what is around it; 0 means no limit. Equal texts have no diff.
func Diff(w io.Writer, s Style, columns int, before, after string) error {
	a, b := lines(before), lines(after)
	head := common(a, b, func(l []string, i int) string { return l[i] })
	a, b, context := a[head:], b[head:], a[max(0, head-diffContext):head]
	tail := common(a, b, func(l []string, i int) string { return l[len(l)-1-i] })
	rest := a[len(a)-tail:]
	a, b, rest = a[:len(a)-tail], b[:len(b)-tail], rest[:min(len(rest), diffContext)]
	if len(a)+len(b) == 0 {
		return nil
	}
	at, same := 0, 0 // the characters before and after the change, for long lines
	if len(a) > 0 && len(b) > 0 {
		x, y := []rune(a[0]), []rune(b[0])
		at = common(x, y, func(l []rune, i int) rune { return l[i] })
		same = common(x[at:], y[at:], func(l []rune, i int) rune { return l[len(l)-1-i] })
	}
	var out strings.Builder
	write := func(line, mark string, set func(string) string) {
		text := Clean(strings.ReplaceAll(strings.TrimRight(line, "\r"), "\t", "  "))
		for part := range strings.SplitSeq(Fold(text, columns-1), "\n") {
			fmt.Fprintln(&out, set(strings.TrimRight(Cut(mark+part, columns), " ")))
		}
	}
	for _, line := range context {
		write(around(line, 0, 0, columns-1), " ", plain)
	}
	for i, line := range a {
		write(changed(line, i, at, same, columns-1), "-", s.Bad)
	}
	for i, line := range b {
		write(changed(line, i, at, same, columns-1), "+", s.Good)
	}
	for _, line := range rest {
		write(around(line, 0, 0, columns-1), " ", plain)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// common returns how many elements of two lists are equal from the beginning, as get numbers them.
func common[T comparable, L ~[]T](a, b L, get func(L, int) T) int {
	n := 0
	for n < min(len(a), len(b)) && get(a, n) == get(b, n) {
		n++
	}
	return n
}

// changed is what a diff shows of changed line number i. The first begins and ends with unchanged characters.
func changed(line string, i, at, same, columns int) string {
	if i > 0 {
		at, same = 0, 0
	}
	return around(line, at, len([]rune(line))-same, columns)
}

// around is a line with … in place of what is far before and after a change, if the line is too long. The change begins and ends at the
// characters with these numbers.
func around(line string, at, end, columns int) string {
	if columns <= 0 || Width(line) <= columns {
		return line
	}
	runes, from := []rune(line), 0
	if at >= columns/2 {
		from = at - columns/4
	}
	to := min(max(end+columns/4, from+columns-2), from+diffFolds*columns)
	text := string(runes[from:min(to, len(runes))])
	if from > 0 {
		text = "…" + text
	}
	if to < len(runes) {
		text += "…"
	}
	return text
}
