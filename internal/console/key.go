package console

import (
	"os"

	"golang.org/x/term"
)

// AnyKey lets a terminal report each key immediately. pressed is closed at the first one, also Ctrl-C. The caller
// calls restore at the end. While it is in effect, lines on the terminal must end with a carriage return and a line
// feed.
func AnyKey(in *os.File) (pressed <-chan struct{}, restore func(), err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, nil, err
	}
	keys := make(chan struct{})
	go func() {
		defer close(keys)
		_, _ = in.Read(make([]byte, 1)) // at the end of the input nobody watches any more
	}()
	return keys, func() { _ = term.Restore(int(in.Fd()), before) }, nil
}

// Rows is the height of the terminal w, or 0 if it is not known.
func Rows(w any) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	_, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return rows
}
