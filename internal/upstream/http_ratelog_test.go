package upstream

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// messageCount is the number of invalid messages or answers in a test. The log has
// far fewer lines for them.
const messageCount = 200

// observeLog returns options that log into logs and mask secrets.
func observeLog() (logs *observer.ObservedLogs, change func(*Options)) {
	core, logs := observer.New(zap.InfoLevel)
	return logs, func(o *Options) {
		o.Logger = zap.New(core)
		o.Mask = func(text string) string { return strings.ReplaceAll(text, "hunter-22", "[redacted]") }
	}
}

func TestMalformedMessagesInTheLog(t *testing.T) {
	s := &sseScript{script: &script{}}
	logs, change := observeLog()
	c := converse(t, s, overSSE, change)
	for range messageCount {
		s.out <- `{}`
	}
	s.out <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	c.in.want(t, wire.NoteToolsChanged)
	if n := logs.FilterMessage("a message of the server is malformed").Len(); n == 0 || n > messageCount/4 {
		t.Errorf("%d malformed messages made %d log lines", messageCount, n)
	}
}

// The log lines about a server that refuses the answers to its own requests are
// bounded in size and number.
func TestRefusedAnswersInTheLog(t *testing.T) {
	refused := `{"code":-1,"message":"hunter-22 ` + strings.Repeat("x", 2*protocol.MaxReason) + `"}`
	s := &script{stream: func(w http.ResponseWriter, r *http.Request) {
		send := streaming(w)
		for n := range messageCount {
			send(`data: {"jsonrpc":"2.0","id":%d,"method":"ping"}`, n)
		}
		<-r.Context().Done()
	}}
	logs, change := observeLog()
	c := converse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if m, err := wire.Parse(body, wire.Limits{}); err == nil && m.IsResponse() {
			defer s.ServeHTTP(discarding{}, r) // records the request
			answerError(w, http.StatusBadRequest, m.ID.String(), refused)
			return
		}
		s.ServeHTTP(w, r)
	}), legacyEra, change)
	polltest.Until(t, "all answers are refused", func() bool { return len(responses(s)) == messageCount })
	c.stop()
	c.waitEnd(t)
	lines := logs.FilterMessage("the server did not take the answer to its request").All()
	if len(lines) == 0 || len(lines) > messageCount/4 {
		t.Fatalf("%d refused answers made %d log lines", messageCount, len(lines))
	}
	for _, line := range lines {
		if text, _ := line.ContextMap()["error"].(string); len(text) > protocol.MaxReason || !strings.Contains(text, "[redacted]") {
			t.Fatalf("%d bytes: %.60s", len(text), text)
		}
	}
}

// discarding is an http.ResponseWriter that discards everything.
type discarding struct{}

func (discarding) Header() http.Header         { return make(http.Header) }
func (discarding) Write(b []byte) (int, error) { return len(b), nil }
func (discarding) WriteHeader(int)             {}
