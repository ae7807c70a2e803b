package process

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"mcpgateway/internal/plaintext"
)

const (
	// keptLines is how many lines of standard error are kept: stack traces follow the
	// reason why a program ends.
	keptLines = 64
	// maxWords bounds the line that says why.
	maxWords = 400
	// young is how long a program may have run for all of its lines to count. The lines of
	// an older one count if they are recent: a server that has run for a day does not end
	// because of an error in the morning.
	young  = 10 * time.Minute
	recent = time.Minute
)

// Words is the line of a program's standard error that says most about what went wrong. It
// is masked, has no control characters, and is at most 400 bytes long. If the line is a record in JSON, it is
// the message of the record.
type Words struct {
	Text string // "" for none
	// Error says that the line names an error. Otherwise it is the last line that is no part
	// of a stack trace or of a help text.
	Error bool
}

// lastLines keeps the last lines of a program's standard error. Its methods may be called
// concurrently.
type lastLines struct {
	began time.Time

	mu    sync.Mutex
	lines []keptLine // a ring once it is full
	next  int        // the oldest line of a full ring
}

type keptLine struct {
	text    string
	message string // of a record in JSON, "" for another line
	at      time.Time
}

// add adds a line and its [messageIn]. Both were masked.
func (l *lastLines) add(text, message string) {
	line := keptLine{plaintext.Truncate(PlainLine(text), 2*maxWords), plaintext.Truncate(PlainLine(message), maxWords), time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < keptLines {
		l.lines = append(l.lines, line)
		return
	}
	l.lines[l.next] = line
	l.next = (l.next + 1) % keptLines
}

// words returns the line that says most.
func (l *lastLines) words() Words {
	l.mu.Lock()
	lines := slices.Concat(l.lines[l.next:], l.lines[:l.next])
	l.mu.Unlock()
	var all, counted []string
	old := time.Since(l.began) > young
	for _, line := range lines {
		all = append(all, line.text)
		if !old || time.Since(line.at) <= recent {
			counted = append(counted, line.text)
		}
	}
	text := errorIn(counted)
	isError := text != ""
	if !isError {
		text = lastIn(all)
	}
	for _, line := range lines {
		if line.message != "" && strings.TrimSpace(line.text) == text {
			text = line.message
		}
	}
	return Words{plaintext.Truncate(text, maxWords), isError}
}

// messageIn returns the message and the error of a line that is a record in JSON, as many loggers write them,
// "" for another line.
func messageIn(line string) string {
	if line = strings.TrimSpace(line); !strings.HasPrefix(line, "{") {
		return ""
	}
	var record map[string]any
	if json.Unmarshal([]byte(line), &record) != nil {
		return ""
	}
	var parts []string
	for _, names := range [][]string{{"msg", "message"}, {"error", "err"}} {
		for _, name := range names {
			text, _ := record[name].(string)
			if nested, ok := record[name].(map[string]any); ok {
				text, _ = nested["message"].(string)
			}
			if text = strings.TrimSpace(text); text != "" && !slices.Contains(parts, text) {
				parts = append(parts, text)
				break
			}
		}
	}
	return strings.Join(parts, ": ")
}

// escapes are the sequences with which programs color their output.
var escapes = regexp.MustCompile("\x1b(\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|[@-_])")

// PlainLine returns a line of a program's output without colors, control characters and
// space at its end.
func PlainLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r) || plaintext.IsInvisible(r):
			return -1
		}
		return r
	}, escapes.ReplaceAllString(text, ""))
	return strings.TrimRight(text, " ")
}

var (
	// names begin a line that is the error itself: "TypeError: …", "panic: …", "fatal: …",
	// "[2026-11-22 10:00:00] ERROR …", "npm error 404 …".
	names = regexp.MustCompile(`^(\S+ )?(Uncaught )?[\w.$/]*(Error|Exception|Panic)( \[\w+\])?: ` +
		`|^(panic|fatal error|fatal|error|Error|FATAL|ERROR|ERR!|Fatal error|error\[E\d+\])\b[:!]? ` +
		`|^npm (error|ERR!) ` +
		`|\b(ERROR|FATAL|CRITICAL|PANIC)\b` +
		`|^\S+: (fatal|error): ` +
		`|^thread '.*' panicked at `)
	// words may be anywhere in a line that names an error.
	errorWords = regexp.MustCompile(`Error|Exception|error:|fatal|panic:|\bE(CONNREFUSED|CONNRESET|NOENT|ACCES|PERM|ADDRINUSE|NOTFOUND|MFILE|HOSTUNREACH|TIMEDOUT|AI_AGAIN|RESOLVE|INTEGRITY)\b` +
		`|level=(error|fatal)|"level":"?(error|fatal)`)
	// weakWords are in lines that say what is wrong without naming it an error.
	weakWords = regexp.MustCompile(`(?i)\b(cannot|can't|could not|couldn't|unable to|failed|failure|not found|no such|not set|not defined|unknown|unrecogni[sz]ed|invalid|missing|required|denied|refused|unauthorized|forbidden|must (be|not|have)|is not a)\b`)

	// frame is a line of a stack trace, of the source text around an error, or of a help text.
	frame = regexp.MustCompile(`^\s+at |^at .*[(:]|^\s*\^+\s*$|^\s*[})\]]+;?,?\s*$|^goroutine \d+ |^\s+\S+\.\w+:\d+|^(main|runtime|os|net|syscall|internal)[./]\S*\(|^created by |^\s+(throw|raise|return|const|await) ` +
		`|^node:|^file://\S+:\d+$|^/\S+:\d+$|^\s*-{1,2}[\w-]+|^\s*Usage\b|^\s*usage:|^\s*\+[-+]+|^\s+\w+: .*,?$`)
	// useless lines say nothing about the reason.
	useless = regexp.MustCompile(`^Node\.js v\d|^Bun v\d|^npm (error|ERR!) (code |A complete log|\s|syscall|path|errno|$)|^npm (warn|notice)|^exit status \d+$|^note: run with .RUST_BACKTRACE|^Run '.*' for|^stack backtrace:|^For more information|^\s*$`)

	traceback = "Traceback (most recent call last)"
	// groupMark begins the lines of a Python traceback within an exception group.
	groupMark = regexp.MustCompile(`^\s*[|+] ?`)
)

// errorIn returns the line that names an error, "" if none does: the end of the last
// traceback of Python, else the first line that begins with the name of an error, else the
// first that mentions one.
func errorIn(lines []string) string {
	if text := tracebackIn(lines); text != "" {
		return text
	}
	for _, words := range []*regexp.Regexp{names, errorWords, weakWords} {
		for i, line := range lines {
			if frame.MatchString(line) || useless.MatchString(line) || !words.MatchString(line) {
				continue
			}
			line = strings.TrimSpace(line)
			if strings.Contains(line, "' panicked at ") && i+1 < len(lines) { // of Rust: the message follows
				line += " " + strings.TrimSpace(lines[i+1])
			}
			return line
		}
	}
	return ""
}

// tracebackIn returns the line that ends the last traceback of Python: frames are indented,
// and the error is not.
func tracebackIn(lines []string) (text string) {
	within := false
	for _, line := range lines {
		if strings.Contains(line, traceback) {
			within = true
			continue
		}
		if !within {
			continue
		}
		if groupMark.MatchString(line) {
			line = groupMark.ReplaceAllString(line, "")
		}
		if line == "" || line[0] == ' ' || line[0] == '+' || line[0] == '-' {
			continue
		}
		text, within = line, false
	}
	return text
}

// lastIn returns the last line that is no part of a stack trace or of a help text. If there
// is none, it returns the first line.
func lastIn(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if !frame.MatchString(line) && !useless.MatchString(line) {
			return strings.TrimSpace(line)
		}
	}
	for _, line := range lines {
		if line != "" {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
