package console

import (
	"fmt"
	"io"
	"strings"
)

// diffContext is how many unchanged lines a diff shows before and after the change.
const diffContext = 2

// Diff writes the lines in which after differs from before: the lines between the first and the last difference,
// with - and +, and a few lines around. It cuts lines to a number of columns, around the change if they contain
// it; 0 means no limit. Equal texts have no diff.
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
	at := 0 // the column of the first change, for long lines
	if len(a) > 0 && len(b) > 0 {
		at = common([]rune(a[0]), []rune(b[0]), func(l []rune, i int) rune { return l[i] })
	}
	var out strings.Builder
	write := func(all []string, mark string, at int, set func(string) string) {
		for i, line := range all {
			if i > 0 {
				at = 0
			}
			text := mark + Clean(around(strings.TrimRight(line, "\r"), at, columns-1))
			fmt.Fprintln(&out, set(strings.TrimRight(Cut(strings.ReplaceAll(text, "\t", "  "), columns), " ")))
		}
	}
	same := func(line string) string { return line }
	write(context, " ", 0, same)
	write(a, "-", at, s.Bad)
	write(b, "+", at, s.Good)
	write(rest, " ", 0, same)
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

// around is a line with … in place of its beginning, if a change at a column would else be cut away.
func around(line string, at, columns int) string {
	if columns <= 0 || Width(line) <= columns || at < columns/2 {
		return line
	}
	return "…" + string([]rune(line)[at-columns/4:])
}
