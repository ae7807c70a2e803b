package upstream

import (
	"bufio"
	"bytes"
	"io"

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
// it ends, and returns the beginning of the last one. Long lines are cut, and when
// there are too many some are left out and counted, so that a child cannot fill
// the log's disk.
func logLines(r io.Reader, log *zap.Logger) (last string) {
	lines := bufio.NewReaderSize(r, maxLogged)
	limit := rate.NewLimiter(stderrRate, stderrBurst)
	dropped := 0
	for rest := false; ; {
		line, more, err := lines.ReadLine()
		if err != nil {
			break
		}
		first := !rest
		rest = more
		if said := bytes.TrimSpace(line); first && len(said) > 0 {
			last = string(said[:min(len(said), maxSaid)])
		}
		switch {
		case !first || len(line) == 0:
		case !limit.Allow():
			dropped++
		default:
			if dropped > 0 {
				log.Warn("lines of the server's standard error were left out", zap.Int("lines", dropped))
				dropped = 0
			}
			log.Info("server", zap.String("stderr", string(line)))
		}
	}
	if dropped > 0 {
		log.Warn("lines of the server's standard error were left out", zap.Int("lines", dropped))
	}
	return last
}
