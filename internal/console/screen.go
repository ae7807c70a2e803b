package console

import (
	"io"
	"sync"
)

// Screen is a terminal for lines, a log and a changing status. The status stays below all lines.
// Without a terminal there is no status. Many goroutines may use it at once.
type Screen struct {
	mu     sync.Mutex
	out    io.Writer
	live   bool
	width  int
	status string
	held   bool
}

// NewScreen returns a screen on w. It shows the status only if live is set, for a terminal.
func NewScreen(w io.Writer, live bool) *Screen {
	return &Screen{out: w, live: live, width: Columns(w)}
}

// Columns is the width of the terminal, or 0 without one.
func (s *Screen) Columns() int { return s.width }

// Status replaces the status; "" removes it.
func (s *Screen) Status(text string) {
	if !s.live {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text = Cut(Line(text), s.width-1)
	if text == s.status || s.held {
		return
	}
	s.status = text
	_, _ = io.WriteString(s.out, erase+text) // errors of the status do not matter
}

// Hold hides the status while a person is asked something.
func (s *Screen) Hold() {
	s.Status("")
	s.hold(true)
}

// Release shows the status again.
func (s *Screen) Release() { s.hold(false) }

func (s *Screen) hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = on
}

const erase = "\r\x1b[K"

// Write writes whole lines above the status.
func (s *Screen) Write(p []byte) (int, error) { return s.To(s.out).Write(p) }

// To returns a writer for another stream that may be on the same terminal.
func (s *Screen) To(w io.Writer) io.Writer { return above{s, w} }

type above struct {
	s *Screen
	w io.Writer
}

func (a above) Write(p []byte) (int, error) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.status != "" {
		_, _ = io.WriteString(a.s.out, erase)
		defer func() { _, _ = io.WriteString(a.s.out, a.s.status) }()
	}
	return a.w.Write(p)
}
