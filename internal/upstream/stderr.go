package upstream

import (
	"bufio"
	"io"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// maxLogged bounds what one line of a server adds to the gateway's log.
const maxLogged = 4 << 10

// What a child may add to the gateway's log by its standard error.
const (
	stderrRate  = 50 // lines a second, on average
	stderrBurst = 500
)

// logLines logs what a child writes to its standard error, line by line, until
// it ends. Long lines are cut, and when there are too many some are left out
// and counted, so that a child cannot fill the log's disk.
func logLines(r io.Reader, log *zap.Logger) {
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
}
