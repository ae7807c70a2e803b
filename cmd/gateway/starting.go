package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/upstream/connector"
)

// starting shows the upstreams that have not finished their first attempt, and writes a line for each that
// has.
type starting struct {
	screen *console.Screen
	style  console.Style
	lines  bool // whether each upstream gets a line
	inLog  bool // whether the same terminal gets the log, which has a line for each upstream that is added later

	mu    sync.Mutex
	names []string        // of upstreams that have not finished their first attempt, in file order
	width int             // of the longest name
	done  map[string]bool // that have, also before begin was called
	early []inspect.Upstream
	all   int // 0 before begin

	logged atomic.Bool // whether quieten removed lines from the log
}

func newStarting(screen *console.Screen) *starting {
	return &starting{screen: screen, done: make(map[string]bool)}
}

// begin sets the upstreams.
func (s *starting) begin(upstreams []inspect.Upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = len(upstreams)
	for _, u := range upstreams {
		s.width = max(s.width, len(u.Name))
		if !s.done[u.Name] {
			s.names = append(s.names, u.Name)
		}
	}
	s.show()
	for _, u := range s.early {
		s.tell(u)
	}
	s.early = nil
}

// watch receives the status of an upstream.
func (s *starting) watch(u inspect.Upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Took == 0 || s.done[u.Name] {
		return
	}
	s.done[u.Name] = true
	if s.all == 0 {
		s.early = append(s.early, u)
		return
	}
	late := len(s.names) == 0 // it was added after the start
	for i, name := range s.names {
		if name == u.Name {
			s.names = append(s.names[:i:i], s.names[i+1:]...)
			break
		}
	}
	s.show()
	if u.Reason != connector.ReasonEnded && (!late || !s.inLog) { // what the user has stopped or removed has not failed
		s.tell(u)
	}
}

// over reports whether every upstream has finished its first attempt.
func (s *starting) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all > 0 && len(s.names) == 0
}

func (s *starting) show() {
	if len(s.names) == 0 {
		s.screen.Status("")
		return
	}
	count := ""
	if s.all > 1 {
		count = fmt.Sprintf(" (%d of %d)", len(s.names), s.all)
	}
	s.screen.Status(fmt.Sprintf("waiting for %s%s …", strings.Join(s.names, ", "), count))
}

// tell writes the line of an upstream.
func (s *starting) tell(u inspect.Upstream) {
	if !s.lines {
		return
	}
	fmt.Fprintln(s.screen, console.Fold(statusLine(u, s.width, s.style), s.screen.Columns()))
}

// quieten removes messages from the log that repeat the greeting, and until all upstreams have started
// those that repeat their lines, if both go to the same terminal.
func (s *starting) quieten(core zapcore.Core) zapcore.Core {
	s.inLog = core.Enabled(zapcore.InfoLevel)
	return quiet{core, s}
}

type quiet struct {
	zapcore.Core
	s *starting
}

// With implements zapcore.Core.
func (q quiet) With(fields []zapcore.Field) zapcore.Core { return quiet{q.Core.With(fields), q.s} }

// Check implements zapcore.Core.
func (q quiet) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	said := false
	switch e.Message {
	case "the gateway starts":
		said = true
	case "no connection": // logged before watch is called
		said = !q.s.over()
	case "upstreams have started": // logged after "upstream" was for each
		said = !q.s.logged.Swap(true)
	case "upstream":
		said = !q.s.logged.Load()
	}
	if said {
		return ce
	}
	return q.Core.Check(e, ce)
}

// statusLine describes an upstream: state, era, items and time, or the error.
func statusLine(u inspect.Upstream, width int, style console.Style) string {
	name := fmt.Sprintf("%-*s", width, u.Name)
	took := u.Took.Round(time.Millisecond)
	if u.Took >= 10*time.Second {
		took = u.Took.Round(100 * time.Millisecond)
	}
	if u.State != connector.Ready && u.State != connector.Degraded && u.State != connector.Idle {
		return fmt.Sprintf("  %s  %s  %s  (%s)", name, style.Bad("down "), console.Line(u.Reason), took)
	}
	state := style.Good("ready")
	switch u.State {
	case connector.Degraded:
		state = style.Warn("degraded")
	case connector.Idle:
		state = style.Dim("idle ")
	}
	items := itemCounts(inspect.ByKind(u.Items), inspect.ByKind(u.Hidden))
	line := fmt.Sprintf("  %s  %s  %s %s  %s", name, state, u.Revision.Era(), u.Revision, cmp.Or(items, "no items"))
	if u.Reason != "" {
		line += "  " + style.Warn(console.Line(u.Reason))
	}
	return line + "  " + style.Dim("("+took.String()+")")
}

// folding breaks lines that are wider than a terminal between words.
type folding struct {
	w       io.Writer
	columns int
}

// Write implements io.Writer. p has whole lines.
func (f folding) Write(p []byte) (int, error) {
	if _, err := io.WriteString(f.w, console.Fold(string(p), f.columns)); err != nil {
		return 0, err
	}
	return len(p), nil
}
