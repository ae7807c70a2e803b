package process

import (
	"bufio"
	"bytes"
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"

	"mcpgateway/internal/plaintext"
)

const (
	// maxLine bounds the bytes of one logged line.
	maxLine = 4 << 10
	// linesPerSecond and linesBurst bound the lines that a program can write to the log.
	linesPerSecond = 5
	linesBurst     = 500
	// warnEvery is the least time between two warnings about lines that were left out. Each
	// has the sum since the last one.
	warnEvery = time.Minute
)

// maxTold is how many lines of a program can cause a call of Log.Wrote.
const maxTold = 100

// stderrReader reads the standard error of a program.
type stderrReader struct {
	to    Log
	last  lastLines
	limit *rate.Limiter

	told    Words // with the last call of Log.Wrote
	number  int   // of the line
	dropped int   // lines over the rate limit since the last call of Log.LeftOut
	unsaid  int   // lines over the rate limit since the last warning
	warned  time.Time
	mention int // the number of the last line about too many open files
}

func newStderrReader(to Log) *stderrReader {
	return &stderrReader{
		to: to, last: lastLines{began: time.Now()},
		limit: rate.NewLimiter(linesPerSecond, linesBurst), mention: -keptLines,
	}
}

// read logs the standard error of a program line by line until it ends. Secrets are masked
// before lines are cut, so that no part of a secret remains. Long lines are cut. Lines over
// the rate limit are counted and left out, so that a program cannot fill the disk.
func (s *stderrReader) read(r io.Reader) {
	lines := bufio.NewReaderSize(r, 2*maxLine)
	for rest := false; ; {
		line, more, err := lines.ReadLine()
		if err != nil {
			break
		}
		first := !rest
		rest = more
		if first && len(line) > 0 {
			s.take(line)
		}
	}
	s.report(time.Time{})
}

// take takes the beginning of a line.
func (s *stderrReader) take(line []byte) {
	s.number++
	if bytes.Contains(line, []byte("EMFILE")) || bytes.Contains(bytes.ToLower(line), []byte("too many open files")) {
		s.mention = s.number
	}
	text := s.to.Mask(string(line))
	s.last.add(text, s.to.Mask(messageIn(string(line)))) // escapes in JSON can hide a secret
	if s.number <= maxTold && s.to.Wrote != nil {
		if words := s.last.words(); words != s.told {
			s.told = words
			s.to.Wrote(words)
		}
	}
	if !s.limit.Allow() {
		s.dropped++
		return
	}
	s.report(s.warned.Add(warnEvery))
	level := zapcore.InfoLevel
	if s.to.First != nil && s.to.First.repeat(s.number-1, text, s.last.began) {
		level = zapcore.DebugLevel
	}
	log := s.to.To
	log.Log(level, "server", zap.String("stderr", plaintext.Truncate(text, maxLine)))
}

// report counts the lines that were left out, and from a time on warns of them.
func (s *stderrReader) report(from time.Time) {
	if s.dropped > 0 && s.to.LeftOut != nil {
		s.to.LeftOut(s.dropped)
	}
	s.unsaid, s.dropped = s.unsaid+s.dropped, 0
	now := time.Now()
	if s.unsaid == 0 || now.Before(from) {
		return
	}
	log := s.to.To
	log.Warn("lines of the server's standard error were left out", zap.Int("lines", s.unsaid))
	s.unsaid, s.warned = 0, now
}

// outOfFiles reports whether one of the last lines says that too many files were open.
func (s *stderrReader) outOfFiles() bool { return s.number-s.mention < keptLines }
