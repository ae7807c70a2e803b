package console

import (
	"fmt"
	"io"
	"strings"
)

// Table writes rows in columns as wide as their widest cell. It cuts the last cell if the line would be
// longer than columns, unless columns is 0. Cells have one line each and may be styled by a [Style]. An
// empty head means no heading.
func Table(w io.Writer, s Style, columns int, head []string, rows [][]string) error {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], Width(plain(cell)))
		}
	}
	var out strings.Builder
	line := func(row []string, set func(string) string) {
		used := 0
		var cells strings.Builder
		for i, cell := range row {
			if i == len(row)-1 {
				if columns > 0 && Width(plain(cell)) > columns-used {
					cell = Cut(plain(cell), max(columns-used, 8))
				}
				cells.WriteString(set(cell))
				break
			}
			gap := widths[i] - Width(plain(cell)) + 2
			cells.WriteString(set(cell) + strings.Repeat(" ", gap))
			used += widths[i] + 2
		}
		out.WriteString(strings.TrimRight(cells.String(), " ") + "\n")
	}
	if strings.Join(head, "") != "" {
		line(head, s.Bold)
	}
	for _, row := range rows {
		line(row, func(cell string) string { return cell })
	}
	_, err := fmt.Fprint(w, out.String())
	return err
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
