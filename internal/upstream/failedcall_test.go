package upstream

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// Operators read what a server says about a call that it refuses, and the id that it gave the response, with every
// status. Clients get neither.
func TestTextOfARefusedCall(t *testing.T) {
	const unaccepted = ": the credentials under headers or auth are not accepted; check that they are the right ones and have not expired"
	const forbidden = ": it knows who is asking and refuses; check the rights of the credentials under headers, and whether it lets this machine in"
	answer := func(status int, id string) on {
		return func(w http.ResponseWriter, r *http.Request, _ wire.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Request-Id", cmp.Or(id, r.Header.Get("X-Request-Id")))
			w.WriteHeader(status)
			io.WriteString(w, `{"message":"no plan for TOKEN-9"}`)
		}
	}
	const said = ` ("{\"message\":\"no plan for [redacted]\"}")`
	const answered = "the server answered HTTP %d with content type application/json"
	for name, tc := range map[string]struct {
		status                    int
		id                        string // "" for that of the call
		reason, detail, explained string
	}{
		"401":            {401, "W-77", "the server refuses the gateway's credentials (HTTP 401)", "URL answered HTTP 401" + unaccepted + " (request W-77)", "URL answered HTTP 401" + said + unaccepted + " (request W-77)"},
		"403":            {403, "W-77", "the server refuses the gateway's credentials (HTTP 403)", "URL answered HTTP 403" + forbidden + " (request W-77)", "URL answered HTTP 403" + said + forbidden + " (request W-77)"},
		"403, same id":   {403, "", "the server refuses the gateway's credentials (HTTP 403)", "URL answered HTTP 403" + forbidden, "URL answered HTTP 403" + said + forbidden},
		"429":            {429, "W-77", "the server is overloaded (HTTP 429)", "", "the server is overloaded (HTTP 429)" + said + " (request W-77)"},
		"400":            {400, "W-77", fmt.Sprintf(answered, 400), "", fmt.Sprintf(answered, 400) + said + " (request W-77)"},
		"404":            {404, "W-77", fmt.Sprintf(answered, 404), "", fmt.Sprintf(answered, 404) + said + " (request W-77)"},
		"500":            {500, "W-77", fmt.Sprintf(answered, 500), "", fmt.Sprintf(answered, 500) + said + " (request W-77)"},
		"503 of a proxy": {503, "", fmt.Sprintf(answered, 503), "", fmt.Sprintf(answered, 503) + said},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", modern ", modern), func(t *testing.T) {
				s := &script{modern: modern, caps: `{}`, on: map[string]on{wire.MethodToolsCall: answer(tc.status, tc.id)}}
				at, err := url.Parse(serve(t, s).URL)
				if err != nil {
					t.Fatal(err)
				}
				mask := func(text string) string { return strings.ReplaceAll(text, "TOKEN-9", "[redacted]") }
				o := Options{Server: Server{HTTP: &httpconn.Config{URL: at, Headers: map[string]string{"Authorization": "Bearer TOKEN-9"}}}, Mask: mask}
				if !modern {
					o.Era = wire.EraLegacy
				}
				r := start(t, o)
				r.watch.wait(t, isReady)
				_, err = r.Do(t.Context(), callWithID(upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}), "r1"))
				failure, ok := err.(*wire.Error)
				if !ok || failure.Explain == nil {
					t.Fatalf("%#v", err)
				}
				text := strings.NewReplacer("URL", diagnose.Show(at))
				upstreamtest.Equal(t, "detail", failure.Detail, text.Replace(tc.detail))
				upstreamtest.Equal(t, "explanation", failure.Explain(whole), text.Replace(tc.explained))
				sent := string(failure.Append(nil))
				if strings.Contains(sent, "plan") || strings.Contains(sent, "W-77") || !strings.Contains(sent, `"reason":"`+tc.reason+`"`) {
					t.Errorf("the client gets %s", sent)
				}
			})
		}
	}
}

// Operators read how a program ended that had calls; calls that fail together get the same text. Clients get none of it.
func TestAdviceForCallsOfAProgramThatEnds(t *testing.T) {
	for _, mib := range []int{0, 2} {
		core, logs := observer.New(zap.WarnLevel)
		health := connector.NewHealth(connector.HealthSettings{Failures: 1, Open: time.Hour})
		r := start(t, Options{Server: Server{Stdio: testProgram("fragile for two"), Era: wire.EraLegacy}, Logger: zap.New(core), Health: health})
		r.watch.wait(t, isReady)
		failures := make(chan error)
		for range 2 {
			go func() {
				cl := tool("echo", `{"name":"echo","x":"`+strings.Repeat("x", mib<<20)+`"}`, nil)
				cl.Principal = call.Anonymous
				_, err := r.Do(t.Context(), cl)
				failures <- err
			}()
		}
		ended := `the program "` + os.Args[0] + `" ended with exit status 9 during the call`
		said, large := `; its standard error says "fatal: no room for TOKEN-9"`, ""
		if mib > 0 {
			large = "; the call was 2.0 MiB large, which may be the reason"
		}
		for range 2 {
			failure, ok := (<-failures).(*wire.Error)
			if !ok || failure.Explain == nil {
				t.Fatalf("%#v", failure)
			}
			upstreamtest.Equal(t, "detail", failure.Detail, ended+large)
			upstreamtest.Equal(t, "explanation", failure.Explain(whole), ended+said+large)
			data := wire.ValueOf(failure.Data)
			upstreamtest.Equal(t, "reason", data.Get("reason").Str(), protocol.ReasonConnectionLost+large)
			upstreamtest.Equal(t, "retryable", data.Get("retryable").Bool(), false)
			if sent := string(failure.Append(nil)); strings.Contains(sent, "status 9") || strings.Contains(sent, "TOKEN-9") {
				t.Errorf("the client gets %s", sent)
			}
		}
		// The breaker tells others of it: what the program said about the calls of one client is not for the lines of another.
		_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
		refused, _ := err.(*wire.Error)
		upstreamtest.Equal(t, "detail while the breaker is open", refused.Detail, "the circuit breaker is open after 1 failed call; the last error: "+ended+large)
		opened := logs.FilterMessage("the circuit breaker is open: calls fail at once").All()
		if len(opened) != 1 || opened[0].ContextMap()["last_error"] != ended+large {
			t.Errorf("the log has %v", opened)
		}
	}
}

// A program that has closed its output gets no more calls, and those that it has fail soon although it runs on.
func TestProgramThatClosesItsOutputOnly(t *testing.T) {
	r := start(t, Options{Server: Server{Stdio: testProgram("mute after a call"), Era: wire.EraLegacy}})
	r.watch.wait(t, isReady)
	_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
	failure, ok := err.(*wire.Error)
	if !ok || failure.Explain == nil {
		t.Fatalf("%#v", err)
	}
	upstreamtest.Equal(t, "explanation", failure.Explain(whole), `the program "`+os.Args[0]+`": the server closed its output`)
	upstreamtest.Equal(t, "reason", wire.ValueOf(failure.Data).Get("reason").Str(), protocol.ReasonConnectionLost)
}
