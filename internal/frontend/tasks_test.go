package frontend

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// testTasks are Tasks with one task, t1.
type testTasks struct {
	deliver chan func(wire.Raw) bool
	ended   chan struct{}
}

func (j *testTasks) WatchTask(ctx context.Context, _ *call.Call, id string, deliver func(wire.Raw) bool) bool {
	if id != "t1" {
		return false
	}
	if deliver(wire.Raw(`{"status":"too early"}`)) {
		panic("news before the acknowledgement were taken")
	}
	go func() {
		j.deliver <- deliver
		<-ctx.Done()
		close(j.ended)
	}()
	return true
}

func TestListenWatchesTasks(t *testing.T) {
	tasks := &testTasks{deliver: make(chan func(wire.Raw) bool), ended: make(chan struct{})}
	server := httptest.NewServer(New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Tasks: tasks}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	listen := func(capabilities string) *http.Response {
		t.Helper()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"taskIds":["t1","t2","t1"]},`+
			`"_meta":{%q:"2026-07-28",%q:%s}}}`, wire.MetaProtocolVersion, wire.MetaClientCapabilities, capabilities)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			wire.HeaderVersion: {"2026-07-28"}, wire.HeaderMethod: {wire.MethodListen},
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}

	refused := listen(`{}`)
	text, err := io.ReadAll(refused.Body)
	refused.Body.Close()
	want := `{"jsonrpc":"2.0","id":"l","error":{"code":-32021,"message":"taskIds need the extension io.modelcontextprotocol/tasks, which the client did not declare",` +
		`"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
	if err != nil || refused.StatusCode != http.StatusBadRequest || withoutRequestIDs(t, strings.TrimSpace(string(text))) != want {
		t.Errorf("%s: %s, %v", refused.Status, text, err)
	}

	stream := listen(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	lines := bufio.NewReader(stream.Body)
	next := func() string {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
				return text
			}
		}
	}
	acknowledged := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"},"notifications":{"taskIds":["t1"]}}}`
	if diff := cmp.Diff(acknowledged, next()); diff != "" {
		t.Error(diff)
	}
	deliver := <-tasks.deliver
	if !deliver(wire.Raw(`{"taskId":"t1","x":1e400}`)) {
		t.Error("the changes were not accepted")
	}
	told := `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t1","x":1e400,"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}`
	if diff := cmp.Diff(told, next()); diff != "" {
		t.Error(diff)
	}
	stream.Body.Close()
	<-tasks.ended // the end of the stream ends the watch
}
