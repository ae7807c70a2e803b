package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// The faults of failing upstreams. Each meets all requests of the gateway.
const (
	faultStatus  = "status-500"
	faultBusy    = "status-503"
	faultLater   = "status-429" // with Retry-After; the call was not begun
	faultHTML    = "html"
	faultReset   = "reset"
	faultHang    = "hang"
	faultHalf    = "half" // half an answer, then the end of the stream or process
	faultGarbage = "garbage"
	faultOtherID = "other-id"
	faultTwice   = "twice" // two answers, of which the first one counts
	faultHuge    = "huge"
	faultExit    = "exit"
)

// faultKinds are the faults over HTTP and on stdio. opening are those after which the circuit breaker must be open.
var (
	httpFaults  = []string{faultStatus, faultReset, faultBusy, faultLater, faultHTML, faultHang, faultHalf, faultGarbage, faultOtherID, faultTwice, faultHuge}
	stdioFaults = []string{faultExit, faultHalf, faultHang, faultGarbage, faultOtherID, faultTwice, faultHuge}
	opening     = map[string]bool{
		faultStatus: true, faultBusy: true, faultHTML: true, faultReset: true, faultHang: true, faultHalf: true, faultGarbage: true, faultOtherID: true,
		faultExit: true,
	}
)

// maxMessage is the size limit of messages. The gateway keeps sixteen times as much for streams that clients resume: much more than the clients leave
// behind in a million calls.
const maxMessage = 16 << 20

// huge is an answer over the limit.
func huge(id json.RawMessage) string {
	return response(id, `{"content":[{"type":"text","text":"`+strings.Repeat("x", maxMessage)+`"}]}`, nil)
}

// otherID is an answer to a request that nobody sent.
const otherID = `{"jsonrpc":"2.0","id":99999999,"result":{"content":[]}}`

const faultFile = "fault"

// faultIn returns the present fault of a server on stdio.
func faultIn(dir string) string {
	kind, _ := os.ReadFile(filepath.Join(dir, faultFile)) // there is no fault without the file
	return string(kind)
}

// setFault begins a fault, or ends it with "".
func (u *upstream) setFault(kind string) error {
	if u.http != nil {
		u.http.mu.Lock()
		defer u.http.mu.Unlock()
		u.http.fault = kind
		return nil
	}
	file := filepath.Join(u.dir, faultFile)
	if kind == "" {
		return os.Remove(file)
	}
	if err := os.WriteFile(file+".next", []byte(kind), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".next", file)
}

// meet notes that a request meets a fault. A call counts as received, unless the fault says that the server refused it.
func (s *server) meet(kind string, m *message) {
	s.note(kind, "")
	var p toolParams
	if m.Method != "tools/call" || kind == faultLater || kind == faultTwice || json.Unmarshal(m.Params, &p) != nil {
		return
	}
	s.begin(p.Arguments.Token)
}

// failOnStdio answers a request with a fault. It returns false if the request is to be answered as well.
func (s *server) failOnStdio(kind string, m *message, write func(string)) bool {
	s.meet(kind, m)
	switch kind {
	case faultExit:
		os.Exit(3)
	case faultHalf:
		os.Stdout.WriteString(`{"jsonrpc":"2.0","id":` + string(m.ID))
		os.Exit(3)
	case faultGarbage:
		write("}{ no message")
	case faultOtherID:
		write(otherID)
	case faultHuge:
		write(huge(m.ID))
	case faultTwice:
		answer := s.take(context.Background(), m, write)
		write(answer)
		write(answer)
	}
	return true
}

// failOnHTTP answers a request with a fault. It returns false if the request is to be answered as well.
func (h *httpServer) failOnHTTP(ctx context.Context, kind string, m *message, w http.ResponseWriter) bool {
	h.meet(kind, m)
	answer := func(mediaType, text string) {
		w.Header().Set("Content-Type", mediaType)
		io.WriteString(w, text)
	}
	switch kind {
	case faultStatus:
		w.WriteHeader(http.StatusInternalServerError)
	case faultBusy:
		w.WriteHeader(http.StatusServiceUnavailable)
	case faultLater:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case faultHTML:
		answer("text/html", "<html><body>Please log in.</body></html>")
	case faultReset:
		if err := reset(w); err != nil {
			h.violation("reset: %v", err)
		}
	case faultHang:
		<-ctx.Done()
	case faultHalf:
		answer("text/event-stream", `data: {"jsonrpc":"2.0","id":`)
	case faultGarbage:
		answer("application/json", "}{ no message")
	case faultOtherID:
		answer("application/json", otherID)
	case faultHuge:
		answer("application/json", huge(m.ID))
	case faultTwice:
		if m.Method != "tools/call" {
			return false
		}
		text := h.take(ctx, m, func(string) {})
		answer("text/event-stream", fmt.Sprintf("data: %s\n\ndata: %s\n\n", text, text))
	}
	return true
}

// reset ends the connection with RST.
func reset(w http.ResponseWriter) error {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return errors.New("no TCP connection")
	}
	return c.SetLinger(0)
}
