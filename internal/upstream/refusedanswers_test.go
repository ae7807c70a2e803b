package upstream

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// A server that has forgotten the session of a call does not take the answer to its question, so the call ends: it would wait until its timeout. If
// the server refuses just this answer, the call goes on.
func TestAnswerInForgottenSession(t *testing.T) {
	for forgets, want := range map[bool]string{
		true:  "call error: the server has forgotten the session of the call, and did not take the answer to its question",
		false: `{"a":1}`,
	} {
		for _, resumable := range []string{"", "id: a1\n"} {
			s := &script{stateful: true, on: map[string]on{}}
			refused := make(chan struct{})
			s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
				send := streaming(w)
				send(resumable + `data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"sure?"}}`)
				if forgets {
					<-r.Context().Done()
					return
				}
				<-refused
				send(`data: {"jsonrpc":"2.0","id":%s,"result":{"a":1}}`, m.ID)
			}
			c := converse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if m, err := wire.Parse(body, wire.Limits{}); err == nil && m.IsResponse() {
					if forgets {
						s.forget()
					} else {
						http.Error(w, "no such request", http.StatusBadRequest)
						close(refused)
						return
					}
				}
				s.ServeHTTP(w, r)
			}), legacyEra)
			back := &client{asked: make(chan string, 1), reply: `{"action":"accept"}`}
			upstreamtest.Equal(t, "result", c.do(t, tool("a", `{"name":"x"}`, back)), want)
		}
	}
}
