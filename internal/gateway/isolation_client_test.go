package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// streamRecorder is a response writer whose body can be read while it is written.
type streamRecorder struct {
	mu     sync.Mutex
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *streamRecorder) Header() http.Header { return p.header }

func (p *streamRecorder) WriteHeader(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

func (p *streamRecorder) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.body.Write(b)
}

func (p *streamRecorder) Flush()                           {}
func (p *streamRecorder) SetReadDeadline(time.Time) error  { return nil }
func (p *streamRecorder) SetWriteDeadline(time.Time) error { return nil }

// take returns the output since the last take.
func (p *streamRecorder) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.body.Reset()
	return p.body.String()
}

// testClient is a client of a testGateway on one of its transports. For the same requests it
// gets the same answers, except for random ids.
type testClient struct {
	how  string // modern, legacy, sse or stdio
	site *testGateway
	who  *call.Principal
	ctx  context.Context

	session    string          // of legacy clients; the URL for messages of SSE clients
	stream     *streamRecorder // unsolicited messages; with SSE and stdio all messages
	pipe       *io.PipeWriter
	events     []string // ids of received events
	asked      int
	initialize string // the answer to initialize
}

// revision returns the revision of the client.
func (v *testClient) revision() wire.Revision {
	if v.how == "modern" {
		return wire.Rev20260728
	}
	return wire.Rev20251125
}

// serve serves one request until it ends, or until all goroutines wait.
func (v *testClient) serve(verb, path, body string, header ...string) *streamRecorder {
	r, err := http.NewRequestWithContext(v.ctx, verb, "http://gateway.test"+path, strings.NewReader(body))
	if err != nil {
		v.site.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if verb == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	}
	r.Header.Set("X-Who", v.who.Subject)
	r.Header.Set("X-Profile", v.who.Profile)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	p := &streamRecorder{header: http.Header{}, status: http.StatusOK}
	serve := v.site.front.ServeHTTP
	if strings.HasPrefix(path, "/sse") {
		serve = v.site.front.ServeSSE
	}
	go serve(p, r)
	synctest.Wait()
	return p
}

// connect connects a client.
func (s *testGateway) connect(ctx context.Context, who *call.Principal, how string) *testClient {
	v := &testClient{how: how, site: s, who: who, ctx: ctx}
	const hello = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`
	switch how {
	case "modern":
		v.stream = v.modern("subscriptions/listen", "", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[`+s.everyURI+`]}`)
	case "legacy":
		p := v.serve(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":`+hello+`}`)
		v.session, v.initialize = p.header.Get(wire.HeaderSession), v.text(p.status, p.take())
		v.stream = v.serve(http.MethodGet, "/mcp", "", wire.HeaderSession, v.session)
	case "sse":
		v.stream = v.serve(http.MethodGet, "/sse", "")
		for line := range strings.SplitSeq(v.stream.take(), "\n") {
			if path, ok := strings.CutPrefix(line, "data: "); ok {
				v.session = path
			}
		}
		v.initialize = v.ask("initialize", hello)
	case "stdio":
		in, out := io.Pipe()
		v.stream, v.pipe = &streamRecorder{}, out
		go s.front.ServeStdio(ctx, call.Local, in, v.stream, time.Second)
		v.initialize = v.ask("initialize", hello)
	}
	return v
}

// modern sends a request of a modern client.
func (v *testClient) modern(method, name, members string) *streamRecorder {
	v.asked++
	if members != "" {
		members += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, v.asked, method, members)
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return v.serve(http.MethodPost, "/mcp", body, header...)
}

// ask sends a request and returns the whole answer.
func (v *testClient) ask(method, params string) string {
	if v.how == "modern" {
		root := wire.ValueOf(wire.Raw(params))
		name := root.Get("name").Str()
		if method == wire.MethodResourcesRead {
			name = root.Get("uri").Str()
		}
		p := v.modern(method, name, strings.TrimSuffix(strings.TrimPrefix(params, "{"), "}"))
		return v.text(p.status, p.take())
	}
	v.asked++
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, v.asked, method, params)
	switch v.how {
	case "legacy":
		p := v.serve(http.MethodPost, "/mcp", body, wire.HeaderSession, v.session)
		return v.text(p.status, p.take())
	case "sse":
		p := v.serve(http.MethodPost, v.session, body)
		return v.text(p.status, p.take()+v.stream.take())
	default:
		io.WriteString(v.pipe, body+"\n")
		synctest.Wait()
		return v.text(0, v.stream.take())
	}
}

// unsolicited returns the messages that answer no request.
func (v *testClient) unsolicited() string {
	synctest.Wait()
	return v.text(0, v.stream.take())
}

// resume tries to resume the stream of another client, with its session and event id.
func (v *testClient) resume(session, event string) string {
	switch v.how {
	case "legacy":
		p := v.serve(http.MethodGet, "/mcp", "", wire.HeaderSession, session, "Last-Event-ID", event)
		q := v.serve(http.MethodGet, "/mcp", "", wire.HeaderSession, v.session, "Last-Event-ID", event)
		o := v.serve(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, wire.HeaderSession, session)
		return v.text(p.status, p.take()) + v.text(q.status, q.take()) + v.text(o.status, o.take())
	case "sse":
		p := v.serve(http.MethodPost, session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		return v.text(p.status, p.take())
	}
	return ""
}

var (
	eventID    = regexp.MustCompile(`(?m)^id: (.*)$`)
	requestIDs = regexp.MustCompile(`"requestId":"[0-9a-z]{20}"`) // all that may differ in errors
)

// text returns an answer without the request ids of errors and the ids of its events, which it
// records.
func (v *testClient) text(status int, body string) string {
	for _, m := range eventID.FindAllStringSubmatch(body, -1) {
		v.events = append(v.events, m[1])
	}
	body = requestIDs.ReplaceAllString(body, `"requestId":"…"`)
	return fmt.Sprintf("%d %s\n", status, eventID.ReplaceAllString(body, "id"))
}
