package upstream

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// schemas provides the header parameters of tools.
type schemas struct {
	now, later []wire.HeaderParam // before and after Relist
	relists    int
}

func (s *schemas) HeaderParams(string) []wire.HeaderParam { return s.now }

func (s *schemas) Relist(context.Context) error {
	s.relists++
	s.now = s.later
	return nil
}

func modernCall(method, params string) *call.Call {
	var raw wire.Raw
	if params != "" {
		raw = wire.Raw(params)
	}
	return &call.Call{Method: method, Params: raw, Back: protocol.NoClient{}, LogLevel: wire.LevelInfo,
		Client: &call.Client{Key: "a", Revision: wire.Rev20260728, Info: wire.Raw(`{"name":"host","version":"2"}`), Capabilities: wire.Raw(`{"elicitation":{}}`)}}
}

func TestModernRequest(t *testing.T) {
	s := &script{modern: true, caps: `{}`}
	h := serve(t, s)
	tools := &schemas{now: []wire.HeaderParam{{Header: "Mcp-Param-Region", Path: []string{"region"}}, {Header: "Mcp-Param-Absent", Path: []string{"absent"}}}}
	c, err := tryConverse(t, h.URL, tools)
	if err != nil {
		t.Fatal(err)
	}
	upstreamtest.Equal(t, "info", string(c.hello.Info), `{"name":"script","version":"1"}`)
	for _, tc := range []struct{ method, params, name, region, sent string }{
		{wire.MethodToolsCall, `{"name":"größe","arguments":{"region":"us"},"_meta":{"k":1}}`, "=?base64?Z3LDtsOfZQ==?=", "us",
			`{"name":"größe","arguments":{"region":"us"},"_meta":{"k":1,META}}`},
		{wire.MethodResourcesRead, `{"uri":"file:///a b"}`, "file:///a b", "", `{"uri":"file:///a b","_meta":{META}}`},
		{wire.MethodPromptsGet, `{"name":"p"}`, "p", "", `{"name":"p","_meta":{META}}`},
		{wire.MethodToolsList, ``, "", "", `{"_meta":{META}}`},
	} {
		t.Run(tc.method, func(t *testing.T) {
			upstreamtest.Equal(t, "outcome", c.do(t, modernCall(tc.method, tc.params)), doneResult)
			got := s.got(tc.method)[0]
			upstreamtest.Equal(t, wire.HeaderVersion, got.header.Get(wire.HeaderVersion), "2026-07-28")
			upstreamtest.Equal(t, wire.HeaderMethod, got.header.Get(wire.HeaderMethod), tc.method)
			upstreamtest.Equal(t, wire.HeaderName, got.header.Get(wire.HeaderName), tc.name)
			upstreamtest.Equal(t, "Mcp-Param-Region", got.header.Get("Mcp-Param-Region"), tc.region)
			if _, there := got.header["Mcp-Param-Absent"]; there {
				t.Error("there is a header for an absent parameter")
			}
			meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"host","version":"2"},` +
				`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"info"`
			upstreamtest.Equal(t, "params", string(got.params), strings.Replace(tc.sent, "META", meta, 1))
		})
	}
}

// The headers of a tool are kept, those of many tools and of long names are not; each call has
// its own.
func TestHeadersOfManyTools(t *testing.T) {
	s := &script{modern: true, caps: `{}`}
	h := serve(t, s)
	c, err := tryConverse(t, h.URL, &schemas{now: []wire.HeaderParam{{Header: "Mcp-Param-Region", Path: []string{"region"}}}})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"", strings.Repeat("x", 300)}
	for i := range 200 {
		names = append(names, "tool"+strconv.Itoa(i))
	}
	n := 0
	for round := range 2 {
		for _, name := range names {
			region := name + strconv.Itoa(round)
			upstreamtest.Equal(t, "outcome", c.do(t, modernCall(wire.MethodToolsCall, `{"name":"`+name+`","arguments":{"region":"`+region+`"}}`)), doneResult)
			got := s.got(wire.MethodToolsCall)[n]
			n++
			upstreamtest.Equal(t, wire.HeaderMethod, strings.Join(got.header[wire.HeaderMethod], ","), wire.MethodToolsCall)
			upstreamtest.Equal(t, wire.HeaderName, strings.Join(got.header[wire.HeaderName], ","), name)
			upstreamtest.Equal(t, "Mcp-Param-Region", strings.Join(got.header["Mcp-Param-Region"], ","), region)
		}
	}
}

func TestHeaderMismatch(t *testing.T) {
	region := []wire.HeaderParam{{Header: "Mcp-Param-Region", Path: []string{"region"}}}
	for name, tc := range map[string]struct {
		later []wire.HeaderParam
		want  string
	}{
		"the schema has changed":  {region, doneResult},
		"the schema is unchanged": {nil, `error: {"code":-32020,"message":"header"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{modern: true, caps: `{}`, on: map[string]on{}}
			s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
				if r.Header.Get("Mcp-Param-Region") == "" {
					answerError(w, 400, m.ID.String(), `{"code":-32020,"message":"header"}`)
					return
				}
				answerJSON(w, m, doneResult)
			}
			tools := &schemas{later: tc.later}
			c, err := tryConverse(t, serve(t, s).URL, tools)
			if err != nil {
				t.Fatal(err)
			}
			upstreamtest.Equal(t, "outcome", c.do(t, modernCall(wire.MethodToolsCall, `{"name":"x","arguments":{"region":"us"}}`)), tc.want)
			upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), 2)
			upstreamtest.Equal(t, "listed again", tools.relists, 1)
		})
	}
}

func TestModernErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		on   on
		want string
	}{
		"unknown method with 404":  {refuse(404, `{"code":-32601,"message":"?"}`), `error: {"code":-32601,"message":"?"}`},
		"missing capability":       {refuse(400, `{"code":-32021,"message":"?","data":{"requiredCapabilities":{}}}`), `error: {"code":-32021,"message":"?","data":{"requiredCapabilities":{}}}`},
		"404 without an error":     {status(404), "call error: the server answered HTTP 404 with content type text/plain"},
		"stream without an answer": {content(httpconn.TypeStream, "id: 1\ndata:\n\n"), "call error: the stream broke off before the server answered"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{modern: true, caps: `{}`, on: map[string]on{wire.MethodToolsCall: tc.on}}
			c := converse(t, s)
			upstreamtest.Equal(t, "outcome", c.do(t, modernCall(wire.MethodToolsCall, `{"name":"x"}`)), tc.want)
			upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), 1)
		})
	}
}

func TestModernRevisionWithdrawn(t *testing.T) {
	s := &script{modern: true, caps: `{}`, on: map[string]on{
		wire.MethodToolsCall: refuse(400, `{"code":-32022,"message":"no","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}`)}}
	c := converse(t, s)
	contains(t, "outcome", c.do(t, modernCall(wire.MethodToolsCall, `{"name":"x"}`)), `"code":-32022`)
	upstreamtest.Equal(t, "run", c.waitEnd(t).Error(), "the server does not speak revision 2026-07-28 any more")
}

func TestModernCancellation(t *testing.T) {
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{modern: true, caps: `{}`, on: map[string]on{}}
	s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, _ wire.Message) {
		streaming(w)(": working")
		cancel()
		<-r.Context().Done()
		close(gone)
	}
	c := converse(t, s)
	_, err := c.Call(ctx, modernCall(wire.MethodToolsCall, `{"name":"x"}`))
	upstreamtest.Equal(t, "error", err, context.Canceled)
	<-gone
	upstreamtest.Equal(t, "cancellations posted", len(s.got(wire.NoteCancelled)), 0)
}

func TestModernProgressAndLogs(t *testing.T) {
	s := &script{modern: true, caps: `{}`, on: map[string]on{}}
	s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		send := streaming(w)
		send(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":%s}}`, wire.ValueOf(m.Params).Get("_meta", "progressToken").Raw())
		send(`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`)
		send(`data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`) // a modern server must not ask; the gateway ignores it
		send(`data: {"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{}}}`, m.ID)
	}
	c := converse(t, s)
	back := &client{}
	cl := modernCall(wire.MethodToolsCall, `{"name":"x","_meta":{"progressToken":"mine"}}`)
	cl.Back = back
	upstreamtest.Equal(t, "result", c.do(t, cl), `{"resultType":"input_required","inputRequests":{}}`)
	upstreamtest.Equal(t, "notes", strings.Join(back.notes, "\n"), `notifications/progress{"progress":1,"progressToken":"mine"}
notifications/message{"level":"info"}`)
}

func TestListening(t *testing.T) {
	s := &script{modern: true, caps: `{"tools":{"listChanged":true},"resources":{"listChanged":true}}`, on: map[string]on{}}
	end := make(chan struct{}, 1)
	s.on[wire.MethodListen] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		send := streaming(w)
		note := func(method, id string) {
			send(`data: {"jsonrpc":"2.0","method":"%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, id)
		}
		note(wire.NoteAcknowledged, m.ID.String())
		note(wire.NotePromptsChanged, "4711") // of an unknown subscription
		note(wire.NoteToolsChanged, m.ID.String())
		select {
		case <-end:
			send(`data: {"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`, m.ID)
		case <-r.Context().Done():
		}
	}
	c := converse(t, s)
	c.in.want(t, wire.NoteToolsChanged+"{}")
	filter := s.got(wire.MethodListen)[0].params
	upstreamtest.Equal(t, "filter", string(wire.ValueOf(filter).Get("notifications").Raw()), `{"toolsListChanged":true,"resourcesListChanged":true}`)
	end <- struct{}{}
	// Changes may be lost before the stream is opened again.
	c.in.want(t, wire.NoteToolsChanged, wire.NoteResourcesChanged, wire.NoteToolsChanged+"{}")
}

func TestNoListening(t *testing.T) {
	tried := make(chan struct{}, 10)
	s := &script{modern: true, on: map[string]on{}}
	s.on[wire.MethodListen] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		answerError(w, 404, m.ID.String(), `{"code":-32601,"message":"?"}`)
		tried <- struct{}{}
	}
	c := converse(t, s)
	<-tried
	upstreamtest.Equal(t, "outcome", c.do(t, modernCall(wire.MethodToolsCall, `{"name":"x"}`)), doneResult)
}

func TestBothEras(t *testing.T) {
	s := &script{stateful: true, on: map[string]on{wire.MethodDiscover: discovered(`["2026-07-28","2025-11-25"]`)}}
	s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		answerJSON(w, m, `{"v":"`+r.Header.Get(wire.HeaderVersion)+` `+r.Header.Get(wire.HeaderSession)+`"}`)
	}
	c := converse(t, s)
	upstreamtest.Equal(t, "sessions at the start", s.sessions, 0)
	for range 2 {
		upstreamtest.Equal(t, "modern client", c.do(t, modernCall(wire.MethodToolsCall, `{"name":"x"}`)), `{"v":"2026-07-28 "}`)
		upstreamtest.Equal(t, "legacy client", c.do(t, tool("a", `{"name":"x"}`, nil)), `{"v":"2025-11-25 session-1"}`)
	}
	upstreamtest.Equal(t, "sessions", s.sessions, 1)
	c.stop()
	c.waitEnd(t)
	upstreamtest.Equal(t, "deletes", len(s.got(http.MethodDelete)), 1)
	upstreamtest.Equal(t, "call afterwards", c.do(t, tool("a", `{"name":"x"}`, nil)), "call error: "+protocol.ReasonConnectionLost)
}

func TestBothErasListedOneRefused(t *testing.T) {
	s := &script{on: map[string]on{
		wire.MethodDiscover:   discovered(`["2026-07-28","2025-11-25"]`),
		wire.MethodInitialize: refuse(400, `{"code":-32601,"message":"?"}`),
	}}
	c := converse(t, s)
	upstreamtest.Equal(t, "first", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult)
	upstreamtest.Equal(t, "second call", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult)
	upstreamtest.Equal(t, "attempts", len(s.got(wire.MethodInitialize)), 1)
}
