package console

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Table writes rows in columns as wide as their widest cell. If lines would be longer than columns, it cuts
// cells: first the last column, then headings that are wider than their cells, then the widest columns, and the first
// column, which has the names, after all others. If columns is 0, it cuts nothing. Cells have one line each and may be styled by a [Style]; a cut cell loses its style. An
// empty head means no heading.
func Table(w io.Writer, s Style, columns int, head []string, rows [][]string) error {
	return table(w, s, columns, head, rows, false)
}

// FoldedTable is [Table], but it folds cells in place of cutting them: between words, and within words only if there is no room for them.
// A folded cell loses its style.
func FoldedTable(w io.Writer, s Style, columns int, head []string, rows [][]string) error {
	return table(w, s, columns, head, rows, true)
}

func table(w io.Writer, s Style, columns int, head []string, rows [][]string, fold bool) error {
	cells, heads, widths := make([]int, len(head)), make([]int, len(head)), make([]int, len(head))
	for _, row := range rows {
		for i, cell := range row {
			cells[i] = max(cells[i], Width(plain(cell)))
		}
	}
	for i, cell := range head {
		heads[i] = Width(plain(cell))
		widths[i] = max(cells[i], heads[i])
	}
	var words []int
	if fold {
		words = longestWords(rows, len(head))
	}
	shrink(widths, cells, heads, words, columns)
	var out strings.Builder
	line := func(row []string, set func(string) string) {
		var cells strings.Builder
		for i, cell := range row {
			cell = Cut(cell, widths[i])
			cells.WriteString(set(cell))
			if i < len(row)-1 {
				cells.WriteString(strings.Repeat(" ", widths[i]-Width(plain(cell))+2))
			}
		}
		out.WriteString(strings.TrimRight(cells.String(), " ") + "\n")
	}
	if strings.Join(head, "") != "" {
		line(head, s.Bold)
	}
	for _, row := range rows {
		for _, row := range foldRow(row, widths, fold) {
			line(row, func(cell string) string { return cell })
		}
	}
	_, err := fmt.Fprint(w, out.String())
	return err
}

// Fit removes columns of a table by their headings, in the order of drop, until lines have at most a number of columns. It stops when [Table]
// has only the last column to cut. If columns is 0, it removes nothing.
func Fit(columns int, head []string, rows [][]string, drop ...string) ([]string, [][]string) {
	for _, name := range drop {
		at := slices.Index(head, name)
		if at < 0 || columns <= 0 || fits(columns, head, rows) {
			continue
		}
		head = slices.Delete(slices.Clone(head), at, at+1)
		less := make([][]string, len(rows))
		for i, row := range rows {
			less[i] = slices.Delete(slices.Clone(row), at, at+1)
		}
		rows = less
	}
	return head, rows
}

// fits reports whether lines have at most a number of columns, with a last column that is cut to minLast.
func fits(columns int, head []string, rows [][]string) bool {
	total := 2 * (len(head) - 1)
	for i := range head {
		width := Width(plain(head[i]))
		for _, row := range rows {
			width = max(width, Width(plain(row[i])))
		}
		if i == len(head)-1 {
			width = min(width, minLast)
		}
		total += width
	}
	return total <= columns
}

// foldRow returns the rows that one row becomes if its cells are folded to widths.
func foldRow(row []string, widths []int, fold bool) [][]string {
	if !fold {
		return [][]string{row}
	}
	rows := [][]string{slices.Clone(row)}
	for i, cell := range row {
		if Width(plain(cell)) <= widths[i] {
			continue
		}
		for n, part := range foldCell(plain(cell), widths[i]) {
			if n == len(rows) {
				rows = append(rows, make([]string, len(row)))
			}
			rows[n][i] = part
		}
	}
	return rows
}

// foldCell returns the lines of a text that is folded to a width.
func foldCell(text string, width int) []string {
	var lines []string
	for line := range strings.SplitSeq(Fold(text, width), "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		for Width(line) > width {
			at, used := len(indent), len(indent)
			for i, r := range line[at:] {
				if used += runeWidth(r); used > width {
					at += i
					break
				}
			}
			if at == len(indent) { // a character is wider than the column
				break
			}
			lines, line = append(lines, line[:at]), indent+line[at:]
		}
		lines = append(lines, line)
	}
	return lines
}

// longestWords returns the widths that each column needs so that no word in it is folded. Words after the first may be indented.
func longestWords(rows [][]string, columns int) []int {
	words := make([]int, columns)
	for _, row := range rows {
		for i, cell := range row {
			for n, word := range strings.Fields(plain(cell)) {
				words[i] = max(words[i], Width(word)+min(n, 1)*2)
			}
		}
	}
	return words
}

const (
	minLast   = 24 // the width of the last column at which others are cut too
	minHead   = 4
	minColumn = 6
)

// shrink reduces the widths of columns so that a line has at most a number of columns of the terminal, if that is
// possible and the number is not 0. Cells and heads are the widths that the columns need for their cells and headings, and words, if cells are
// folded, for their longest words. Words are folded after that, and headings are cut last.
func shrink(widths, cells, heads, words []int, columns int) {
	if columns <= 0 || len(widths) == 0 {
		return
	}
	over := 2*(len(widths)-1) - columns
	for _, w := range widths {
		over += w
	}
	if words != nil {
		between := func(i int) int { return max(heads[i], words[i]) }
		over = narrow(widths, over, 1, between)
		over = narrow(widths, over, 0, between)
	}
	last := len(widths) - 1
	if cut := min(over, widths[last]-minLast); cut > 0 {
		widths[last] -= cut
		over -= cut
	}
	if words != nil {
		over = narrow(widths, over, 1, func(i int) int { return max(heads[i], minColumn) })
	}
	over = narrow(widths, over, 0, func(i int) int { return max(cells[i], minHead) })
	over = narrow(widths, over, 1, func(int) int { return minColumn })
	narrow(widths, over, 0, func(int) int { return minColumn })
}

// narrow takes over columns from the widest of the columns that begin with first, and none from one that is as narrow as least says. It returns
// how many are left to take.
func narrow(widths []int, over, first int, least func(int) int) int {
	for ; over > 0; over-- {
		widest := -1
		for i := len(widths) - 1; i >= first; i-- {
			if widths[i] > least(i) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return over
}

// plain is text without the escapes of a [Style].
func plain(s string) string {
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		if !found {
			return s
		}
		_, after, _ := strings.Cut(rest, "m")
		s = before + after
	}
}
