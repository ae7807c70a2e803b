//go:build unix

package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// columnsOf is the width of a terminal, 0 if it is unknown, and -1 without a terminal.
func columnsOf(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return -1
	}
	return int(size.Col)
}
