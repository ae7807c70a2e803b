package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
)

// The log line and the status of a call that found no server say what to do about it, as the line
// "no connection" does. The client learns no address.
func TestFailedCallsNameTheAdvice(t *testing.T) {
	server := &scripted{name: "find", closed: make(chan struct{})}
	web := httptest.NewServer(server)
	defer web.Close()
	server.URL = web.URL
	core, logs := observer.New(zap.InfoLevel)
	const never = "http://127.0.0.1:1" // nothing listens there
	g, _ := startLogged(t, "upstreams: {a: "+server.entry("")+", b: {url: \""+never+"\", transport: streamable-http}}", false, zap.New(core))
	callOf(t, g, "a__find")
	polltest.Until(t, "b is down", func() bool { return g.Upstreams()[1].State == connector.Down })
	web.CloseClientConnections()
	web.Close()
	for i, tool := range []string{"a__find", "b__find"} {
		address := strings.TrimPrefix([]string{web.URL, never}[i], "http://")
		want := "nothing listens on " + address + ": start the server, or check the host and port of url"
		if answer := callOf(t, g, tool); strings.Contains(answer, address) || !strings.Contains(answer, "cannot connect to the server") {
			t.Errorf("%s: the client gets %s", tool, answer)
		}
		polltest.Until(t, "the call of "+tool+" is in the log", func() bool { return logs.FilterMessage("call").Len() == 2+i })
		if got := logs.FilterMessage("call").All()[1+i].ContextMap()["reason"]; got != want {
			t.Errorf("%s: the log says %q, want %q", tool, got, want)
		}
		if last := g.Upstreams()[i].LastFailed; last == nil || last.Reason != want {
			t.Errorf("%s: the last failed call is %+v", tool, last)
		}
	}
}
