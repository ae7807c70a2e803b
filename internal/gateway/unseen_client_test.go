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

// paper is a response that is written on.
type paper struct {
	mu     sync.Mutex
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *paper) Header() http.Header { return p.header }

func (p *paper) WriteHeader(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.body.Write(b)
}

func (p *paper) Flush()                           {}
func (p *paper) SetReadDeadline(time.Time) error  { return nil }
func (p *paper) SetWriteDeadline(time.Time) error { return nil }

// take returns what has been written since it was last taken.
func (p *paper) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.body.Reset()
	return p.body.String()
}

// visitor is a client of a site, by one of its front ends. All that it gets is the
// same for the same requests, but for ids that are made up.
type visitor struct {
	how  string // modern, legacy, sse or stdio
	site *site
	who  *call.Principal
	ctx  context.Context

	session string // of legacy clients; where SSE clients post to
	stream  *paper // what comes unasked, and all that does by SSE and stdio
	pipe    *io.PipeWriter
	events  []string // ids of events that came
	asked   int
	hello   string // the answer to initialize
}

// rev is the revision that the visitor speaks.
func (v *visitor) rev() wire.Revision {
	if v.how == "modern" {
		return wire.Rev20260728
	}
	return wire.Rev20251125
}

// serve has the site serve one request to its end, or until all wait.
func (v *visitor) serve(verb, path, body string, header ...string) *paper {
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
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	p := &paper{header: http.Header{}, status: http.StatusOK}
	serve := v.site.front.ServeHTTP
	if strings.HasPrefix(path, "/sse") {
		serve = v.site.front.ServeSSE
	}
	go serve(p, r)
	synctest.Wait()
	return p
}

// visit begins a conversation.
func (s *site) visit(ctx context.Context, who *call.Principal, how string) *visitor {
	v := &visitor{how: how, site: s, who: who, ctx: ctx}
	const hello = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`
	switch how {
	case "modern":
		v.stream = v.modern("subscriptions/listen", "", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[`+s.everyURI+`]}`)
	case "legacy":
		p := v.serve(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":`+hello+`}`)
		v.session, v.hello = p.header.Get(wire.HeaderSession), v.text(p.status, p.take())
		v.stream = v.serve(http.MethodGet, "/mcp", "", wire.HeaderSession, v.session)
	case "sse":
		v.stream = v.serve(http.MethodGet, "/sse", "")
		for line := range strings.SplitSeq(v.stream.take(), "\n") {
			if path, ok := strings.CutPrefix(line, "data: "); ok {
				v.session = path
			}
		}
		v.hello = v.ask("initialize", hello)
	case "stdio":
		in, out := io.Pipe()
		v.stream, v.pipe = &paper{}, out
		go s.front.ServeStdio(ctx, in, v.stream, time.Second)
		v.hello = v.ask("initialize", hello)
	}
	return v
}

// modern sends a request of a modern client.
func (v *visitor) modern(method, name, members string) *paper {
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

// ask sends a request and returns all of the answer.
func (v *visitor) ask(method, params string) string {
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

// news is what has come unasked.
func (v *visitor) news() string {
	synctest.Wait()
	return v.text(0, v.stream.take())
}

// steal tries to have what was sent to another client, whose session and event these
// are.
func (v *visitor) steal(session, event string) string {
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

var eventID = regexp.MustCompile(`(?m)^id: (.*)$`)

// text is an answer, without the ids of its events, which are kept.
func (v *visitor) text(status int, body string) string {
	for _, m := range eventID.FindAllStringSubmatch(body, -1) {
		v.events = append(v.events, m[1])
	}
	return fmt.Sprintf("%d %s\n", status, eventID.ReplaceAllString(body, "id"))
}
