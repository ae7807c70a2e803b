package console

import (
	"fmt"
	"io"
	"strings"
)

// Table writes rows in columns as wide as their widest cell. If lines would be longer than columns, it cuts
// cells: first the last column, then headings that are wider than their cells, then the widest columns, and the first
// column, which has the names, after all others. If columns is 0, it cuts nothing. Cells have one line each and may be styled by a [Style]; a cut cell loses its style. An
// empty head means no heading.
func Table(w io.Writer, s Style, columns int, head []string, rows [][]string) error {
	return table(w, s, columns, head, rows, false)
}

// FoldedTable is [Table], but it folds the last column between words and does not cut it. Cells of that column must not be styled.
func FoldedTable(w io.Writer, s Style, columns int, head []string, rows [][]string) error {
	return table(w, s, columns, head, rows, true)
}

func table(w io.Writer, s Style, columns int, head []string, rows [][]string, fold bool) error {
	cells, widths := make([]int, len(head)), make([]int, len(head))
	for _, row := range rows {
		for i, cell := range row {
			cells[i] = max(cells[i], Width(plain(cell)))
		}
	}
	for i, cell := range head {
		widths[i] = max(cells[i], Width(plain(cell)))
	}
	shrink(widths, cells, columns)
	var out strings.Builder
	line := func(row []string, set func(string) string) {
		var cells strings.Builder
		for i, cell := range row {
			if Width(plain(cell)) > widths[i] {
				cell = Cut(plain(cell), widths[i])
			}
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
		for _, row := range foldRow(row, widths[len(widths)-1], fold) {
			line(row, func(cell string) string { return cell })
		}
	}
	_, err := fmt.Fprint(w, out.String())
	return err
}

// foldRow returns the rows that one row becomes if its last cell is folded to a width: all after the first have only that cell.
func foldRow(row []string, width int, fold bool) [][]string {
	last := len(row) - 1
	if !fold || Width(plain(row[last])) <= width {
		return [][]string{row}
	}
	var rows [][]string
	for i, part := range strings.Split(Fold(row[last], width), "\n") {
		next := make([]string, len(row))
		if i == 0 {
			copy(next, row)
		}
		next[last] = part
		rows = append(rows, next)
	}
	return rows
}

const (
	minLast   = 24 // the width of the last column at which others are cut too
	minHead   = 4
	minColumn = 6
)

// shrink reduces the widths of columns so that a line has at most a number of columns of the terminal, if that is
// possible and the number is not 0. Cells are the widths that the columns have without their headings.
func shrink(widths, cells []int, columns int) {
	if columns <= 0 || len(widths) == 0 {
		return
	}
	over := 2*(len(widths)-1) - columns
	for _, w := range widths {
		over += w
	}
	last := len(widths) - 1
	if cut := min(over, widths[last]-minLast); cut > 0 {
		widths[last] -= cut
		over -= cut
	}
	for ; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if w > max(cells[i], minHead) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for ; over > 0; over-- {
		widest := last
		for i, w := range widths {
			if i > 0 && w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= minColumn {
			widest = 0
		}
		if widths[widest] <= minColumn {
			return
		}
		widths[widest]--
	}
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
