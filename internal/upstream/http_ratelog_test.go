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

// often is how many faults a server of these tests has: many more than there are
// lines of the log for it.
const often = 200

// observed has a conversation log into logs, with what is secret masked.
func observed() (logs *observer.ObservedLogs, change func(*Options)) {
	core, logs := observer.New(zap.InfoLevel)
	return logs, func(o *Options) {
		o.Logger = zap.New(core)
		o.Mask = func(text string) string { return strings.ReplaceAll(text, "hunter-22", "[redacted]") }
	}
}

func TestMalformedMessagesInTheLog(t *testing.T) {
	s := &sseScript{script: &script{}}
	logs, change := observed()
	c := converse(t, s, overSSE, change)
	for range often {
		s.out <- `{}`
	}
	s.out <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	c.in.want(t, wire.NoteToolsChanged)
	if n := logs.FilterMessage("a message of the server is malformed").Len(); n == 0 || n > often/4 {
		t.Errorf("%d malformed messages are %d lines of the log", often, n)
	}
}

// A server that refuses the answers to its own questions has its say in the log
// within bounds, and not once for each.
func TestRefusedAnswersInTheLog(t *testing.T) {
	refused := `{"code":-1,"message":"hunter-22 ` + strings.Repeat("x", 2*protocol.MaxReason) + `"}`
	s := &script{stream: func(w http.ResponseWriter, r *http.Request) {
		say := streaming(w)
		for n := range often {
			say(`data: {"jsonrpc":"2.0","id":%d,"method":"ping"}`, n)
		}
		<-r.Context().Done()
	}}
	logs, change := observed()
	c := converse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if m, err := wire.Parse(body, wire.Limits{}); err == nil && m.IsResponse() {
			defer s.ServeHTTP(discarding{}, r) // which notes it
			answerError(w, http.StatusBadRequest, m.ID.String(), refused)
			return
		}
		s.ServeHTTP(w, r)
	}), legacyEra, change)
	polltest.Until(t, "all answers are refused", func() bool { return len(responses(s)) == often })
	c.stop()
	c.over(t)
	lines := logs.FilterMessage("the server did not take the answer to its request").All()
	if len(lines) == 0 || len(lines) > often/4 {
		t.Fatalf("%d refused answers are %d lines of the log", often, len(lines))
	}
	for _, line := range lines {
		if text, _ := line.ContextMap()["error"].(string); len(text) > protocol.MaxReason || !strings.Contains(text, "[redacted]") {
			t.Fatalf("%d bytes: %.60s", len(text), text)
		}
	}
}

// discarding is an answer that goes nowhere.
type discarding struct{}

func (discarding) Header() http.Header         { return make(http.Header) }
func (discarding) Write(b []byte) (int, error) { return len(b), nil }
func (discarding) WriteHeader(int)             {}
