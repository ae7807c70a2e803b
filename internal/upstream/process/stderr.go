package process

import (
	"bufio"
	"bytes"
	"io"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"mcpgateway/internal/plaintext"
)

const (
	// maxLine bounds the bytes of one logged line.
	maxLine = 4 << 10
	// maxLastLine bounds ExitError.LastLine.
	maxLastLine = 200
	// linesPerSecond and linesBurst bound the lines that a program can write to the log.
	linesPerSecond = 50
	linesBurst     = 500
)

// lastLines is how many lines at the end may say why a program has ended: stack traces
// follow the reason.
const lastLines = 64

// logLines logs the standard error of a program line by line until it ends. It returns the
// beginning of the last line, and whether one of the last lines says that too many files
// were open. Secrets are masked before lines are cut, so
// that no part of a secret remains. Long lines are cut. Lines over the rate limit are
// counted and left out, so that a program cannot fill the disk.
func logLines(r io.Reader, to Log) (lastLine string, outOfFiles bool) {
	log, mask := to.To, to.Mask
	lines := bufio.NewReaderSize(r, 2*maxLine)
	limit := rate.NewLimiter(linesPerSecond, linesBurst)
	dropped, number, mention := 0, 0, -lastLines
	report := func() {
		if dropped == 0 {
			return
		}
		log.Warn("lines of the server's standard error were left out", zap.Int("lines", dropped))
		if to.LeftOut != nil {
			to.LeftOut(dropped)
		}
		dropped = 0
	}
	var last []byte
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
		number++
		if bytes.Contains(line, []byte("EMFILE")) || bytes.Contains(bytes.ToLower(line), []byte("too many open files")) {
			mention = number
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			last = append(last[:0], text...)
		}
		switch {
		case !limit.Allow():
			dropped++
		default:
			report()
			log.Info("server", zap.String("stderr", plaintext.Truncate(mask(string(line)), maxLine)))
		}
	}
	report()
	return plaintext.Truncate(mask(string(last)), maxLastLine), number-mention < lastLines
}
