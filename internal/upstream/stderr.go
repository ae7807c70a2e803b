package upstream

import (
	"bufio"
	"bytes"
	"io"
	"unicode/utf8"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// maxLogged bounds what one line of a server adds to the gateway's log.
const maxLogged = 4 << 10

// maxSaid bounds what is told of a line in the explanation of why a server ended.
const maxSaid = 200

// What a child may add to the gateway's log by its standard error.
const (
	stderrRate  = 50 // lines a second, on average
	stderrBurst = 500
)

// logLines logs what a child writes to its standard error, line by line, until
// it ends, and returns the beginning of the last one. What is secret is masked
// before lines are cut, so that no half of it is left. Long lines are cut, and when
// there are too many some are left out and counted, so that a child cannot fill
// the log's disk.
func logLines(r io.Reader, log *zap.Logger, mask func(string) string) string {
	lines := bufio.NewReaderSize(r, 2*maxLogged)
	limit := rate.NewLimiter(stderrRate, stderrBurst)
	dropped := 0
	var final []byte
	for rest := false; ; {
		line, more, err := lines.ReadLine()
		if err != nil {
			break
		}
		first := !rest
		rest = more
		if !first || len(line) == 0 {
			continue
		}
		if said := bytes.TrimSpace(line); len(said) > 0 {
			final = append(final[:0], said...)
		}
		switch {
		case !limit.Allow():
			dropped++
		default:
			if dropped > 0 {
				log.Warn("lines of the server's standard error were left out", zap.Int("lines", dropped))
				dropped = 0
			}
			log.Info("server", zap.String("stderr", cut(mask(string(line)), maxLogged)))
		}
	}
	if dropped > 0 {
		log.Warn("lines of the server's standard error were left out", zap.Int("lines", dropped))
	}
	return cut(mask(string(final)), maxSaid)
}

// cut returns the beginning of a text, without half a character at its end.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
