//go:build !unix

package console

import "os"

// columnsOf is the width of a terminal, 0 if it is unknown, and -1 without a terminal.
func columnsOf(f *os.File) int {
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return 0
	}
	return -1
}
