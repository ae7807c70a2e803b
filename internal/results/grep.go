package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"runtime"
	"time"
)

// Bounds of a search.
const (
	maxContext    = 100
	maxPattern    = 1 << 10 // bytes of a regular expression
	maxProgram    = 1000    // instructions that it compiles to
	searchTime    = 2 * time.Second
	window        = 16 << 10 // the part of a long line that is searched at once
	longLine      = 1000     // bytes; of longer lines only the surroundings of matches are shown
	matchesInLine = 50       // of a long line that are shown
	surroundings  = 100      // bytes before and after a match in a long line
)

// searching has room for the searches that may run at one time: half of the processors stay for
// others, whatever clients search for.
var searching = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// pattern is a compiled regular expression.
type pattern struct {
	text    string
	re      *regexp.Regexp
	context int
}

// newPattern compiles a regular expression (RE2).
func newPattern(text string, context int) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("grep has %d bytes; at most %d are accepted", len(text), maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("grep must be a regular expression in the syntax of RE2: %w", err)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(prog.Inst) > maxProgram {
		return nil, errors.New("grep is too complex; use fewer or shorter repetitions")
	}
	re := regexp.MustCompile(text) // it was parsed
	return &pattern{text, re, context}, nil
}

// search is one run of a pattern over the lines of a text.
type search struct {
	pattern *pattern
	max     int // bytes of out
	out     bytes.Buffer
	matches int
	printed int // the number of the last printed line, 0 for none

	deadline time.Time
	looked   int // bytes since the last look at the clock
	stopped  int // where in its last line the search ran out of time, 0 if it did not
}

// run searches the lines of a text, which begin with line number first. It returns the number of
// the line to go on with, 0 if it came to the end: it stops if out is full or the search takes
// too long, and always looks at one line. The error is that of ctx.
func (s *search) run(ctx context.Context, text []byte, first int) (next int, err error) {
	var behind [][]byte // lines before that were not printed, up to the context
	after := 0          // lines to print after a match
	for n := first; len(text) > 0; n++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if n > first && s.isLate(0) {
			return n, nil
		}
		var line []byte
		line, text = cutLine(text)
		found := s.match(line)
		size, printed := s.out.Len(), s.printed
		switch {
		case found != nil:
			for i, l := range behind {
				s.print(n-len(behind)+i, '-', l, nil)
			}
			s.print(n, ':', line, found)
			s.matches++
			behind, after = behind[:0], s.pattern.context
		case after > 0:
			s.print(n, '-', line, nil)
			after--
		default:
			if len(behind) == s.pattern.context && len(behind) > 0 {
				behind = append(behind[:0], behind[1:]...)
			}
			if s.pattern.context > 0 {
				behind = append(behind, line)
			}
		}
		if s.out.Len() > s.max && size > 0 {
			s.out.Truncate(size)
			s.printed = printed
			if found != nil {
				s.matches--
			}
			return n, nil
		}
	}
	return 0, nil
}

// cutLine returns the first line without its end, and the rest of the text.
func cutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, newline)
	return bytes.TrimSuffix(line, []byte{'\r'}), rest
}

// match returns the places where a line matches, nil if it does not match. For a line that is
// printed whole it returns no places.
func (s *search) match(line []byte) [][]int {
	if len(line) <= longLine {
		s.looked += len(line) + 16
		if s.pattern.re.Match(line) {
			return [][]int{}
		}
		return nil
	}
	var found [][]int
	for at := 0; len(found) < matchesInLine; at += window - longLine { // windows overlap
		part := line[at:min(at+window, len(line))]
		for _, m := range s.pattern.re.FindAllIndex(part, matchesInLine-len(found)) {
			if from := at + m[0]; len(found) == 0 || from >= found[len(found)-1][1] {
				found = append(found, []int{from, at + m[1]})
			}
		}
		if at+window >= len(line) {
			break
		}
		if s.isLate(len(part)) {
			s.stopped = at + len(part)
			break
		}
	}
	return found
}

// isLate reports whether the time for the search is over, after n more bytes. It looks at the
// clock now and then.
func (s *search) isLate(n int) bool {
	if s.looked += n; s.looked < window/2 {
		return false
	}
	s.looked = 0
	return time.Now().After(s.deadline)
}

// print prints a line with its number. For a long line it prints the surroundings of the
// matches, each with its first byte in the line.
func (s *search) print(n int, mark byte, line []byte, found [][]int) {
	if s.printed > 0 && n > s.printed+1 && s.pattern.context > 0 {
		s.out.WriteString("--\n")
	}
	s.printed = n
	if len(line) <= longLine {
		fmt.Fprintf(&s.out, "%d%c%s\n", n, mark, line)
		return
	}
	if len(found) == 0 {
		fmt.Fprintf(&s.out, "%d%c%s… (%d bytes)\n", n, mark, line[:runeStart(line, 2*surroundings)], len(line))
		return
	}
	end := 0
	for _, m := range found {
		from := runeStart(line, max(m[0]-surroundings, end))
		to := runeStart(line, min(max(m[0], end)+2*surroundings, len(line)))
		if to <= from {
			continue // it was printed with the match before
		}
		if end > 0 && s.out.Len()+to-from > s.max {
			break
		}
		fmt.Fprintf(&s.out, "%d%c[byte %d of the line] %s\n", n, mark, from, line[from:to])
		end = to
	}
	if len(found) == matchesInLine {
		fmt.Fprintf(&s.out, "%d%c… more matches in this line may follow\n", n, mark)
	}
}
