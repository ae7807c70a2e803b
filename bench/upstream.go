package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"mcpgateway/internal/wire"
)

const (
	toolName = "text" // the tool of the upstream that is called

	legacyRevision = "2025-11-25"
	modernRevision = "2026-07-28"

	sessionHeader  = "Mcp-Session-Id"
	maxRequestBody = 8 << 20
	minAnswer      = nonceLength
	maxAnswer      = 1 << 20 // bytes of text in a result
)

// padding follows the nonce in an answer's text. It needs no JSON escapes, so
// that every encoder writes the same bytes.
var padding = strings.Repeat("abcdefghijklmnopqrstuvwxyz012345", maxAnswer/32)

// answerText returns the text of the result of a call with this nonce.
func answerText(nonce string, size int) string { return nonce + padding[len(nonce):size] }

// rawUpstream is an MCP server with one tool that is called. The tool's text
// begins with the nonce of the call. The server serves both eras with as little
// work as possible: it decodes the request once and writes a result made of
// strings.
type rawUpstream struct {
	tools   string // the list, as JSON
	updates bool
	streams broadcast

	mu      sync.Mutex
	release chan struct{} // closed when held calls may be answered
	held    int
}

func newRawUpstream(r role) *rawUpstream {
	return &rawUpstream{tools: toolList(r.Tools), updates: r.Updates, release: make(chan struct{})}
}

// toolList returns the list of the tool that is called and of extra others.
func toolList(extra int) string {
	var b strings.Builder
	b.WriteString(`"tools":[{"name":"` + toolName + `","description":"a text that begins with the nonce",` +
		`"inputSchema":{"type":"object","properties":{"nonce":{"type":"string"}},"required":["nonce"]}}`)
	for i := range extra {
		fmt.Fprintf(&b, `,{"name":"tool_%05d","title":"Tool %d","description":"Does the work with number %d and returns what came of it.",`+
			`"inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Where to work"},"count":{"type":"integer","minimum":0}},`+
			`"required":["path"]},"annotations":{"readOnlyHint":true}}`, i, i, i)
	}
	b.WriteString("]")
	return b.String()
}

// rawRequest has the members of a request that the upstream reads.
type rawRequest struct {
	ID                            wire.ID
	Method, Name, ProtocolVersion string
	Arguments                     callArguments
}

// readRequest reads a request or a notification.
func readRequest(body []byte) (rawRequest, error) {
	m, err := wire.Parse(body, wire.Limits{})
	if err != nil {
		return rawRequest{}, err
	}
	params := wire.ValueOf(m.Params)
	arguments := params.Get("arguments")
	size, _ := arguments.Get("size").Int()
	return rawRequest{
		ID: m.ID, Method: m.Method, Name: params.Get("name").Str(), ProtocolVersion: params.Get("protocolVersion").Str(),
		Arguments: callArguments{
			Nonce: arguments.Get("nonce").Str(), Size: int(size),
			SSE: arguments.Get("sse").Bool(), Hold: arguments.Get("hold").Bool(),
		},
	}, nil
}

// callArguments are the arguments of the tool.
type callArguments struct {
	Nonce string `json:"nonce"`
	Size  int    `json:"size"`           // bytes of text in the result
	SSE   bool   `json:"sse,omitempty"`  // answer with an event stream
	Hold  bool   `json:"hold,omitempty"` // answer when the upstream is told to
	Data  string `json:"data,omitempty"` // makes the request large
}

// modernMembers are the members that revision 2026-07-28 adds to a complete
// result. Older clients ignore them.
const modernMembers = `"resultType":"complete","ttlMs":60000,"cacheScope":"public",`

func (u *rawUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/control":
		u.control(w, r)
		return
	case r.Method == http.MethodPost:
	case r.Method == http.MethodGet && u.updates:
		u.streams.ServeHTTP(w, r)
		return
	case r.Method == http.MethodDelete: // ends a session; the upstream stores none
		w.WriteHeader(http.StatusNoContent)
		return
	default: // the upstream offers no stream
		w.Header().Set("Allow", "POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req, err := readRequest(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if req.ID.IsZero() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if req.Method == "initialize" {
		w.Header().Set(sessionHeader, rand.Text())
	}
	if req.Arguments.Hold {
		u.hold(r)
	}
	writeAnswer(w, u.answer(req, r.Header.Get("Mcp-Method") != ""), req.Arguments.SSE)
}

// answer returns the parts of a response. Large parts are not copied.
func (u *rawUpstream) answer(req rawRequest, modern bool) []string {
	begin := `{"jsonrpc":"2.0","id":` + req.ID.String() + `,`
	switch req.Method {
	case "tools/call":
		args := req.Arguments
		if req.Name != toolName || !plainNonce(args.Nonce) || args.Size < minAnswer || args.Size > maxAnswer {
			return []string{begin, `"error":{"code":-32602,"message":"call the tool text with a nonce of letters and digits and a size"}}`}
		}
		complete := ""
		if modern {
			complete = `"resultType":"complete",`
		}
		return []string{begin, `"result":{` + complete + `"content":[{"type":"text","text":"` + args.Nonce, padding[len(args.Nonce):args.Size], `"}]}}`}
	case "initialize":
		version := req.ProtocolVersion
		if !plainNonce(strings.ReplaceAll(version, "-", "")) {
			version = legacyRevision
		}
		return []string{begin, fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"bench","version":"1"}}}`, version, u.capabilities())}
	case "server/discover":
		return []string{begin, `"result":{`, modernMembers, `"supportedVersions":["` + modernRevision + `"],"capabilities":` + u.capabilities() + `,` +
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1"}}}}`}
	case "tools/list":
		return []string{begin, `"result":{`, modernMembers, u.tools, `}}`}
	case "resources/list":
		return []string{begin, `"result":{`, modernMembers, `"resources":[{"uri":"` + resourceURI + `","name":"state"}]}}`}
	case "resources/templates/list":
		return []string{begin, `"result":{`, modernMembers, `"resourceTemplates":[]}}`}
	case "ping", "resources/subscribe", "resources/unsubscribe":
		return []string{begin, `"result":{}}`}
	}
	return []string{begin, `"error":{"code":-32601,"message":"method not found"}}`}
}

func (u *rawUpstream) capabilities() string {
	if u.updates {
		return `{"tools":{},"resources":{"subscribe":true}}`
	}
	return `{"tools":{}}`
}

// writeAnswer writes the parts as a JSON body or as an event. An error of a write
// means that the client is gone.
func writeAnswer(w http.ResponseWriter, parts []string, sse bool) {
	if sse {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "event: message\ndata: ")
	} else {
		length := 0
		for _, part := range parts {
			length += len(part)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(length))
	}
	for _, part := range parts {
		io.WriteString(w, part)
	}
	if sse {
		io.WriteString(w, "\n\n")
	}
}

// hold waits until the held calls are released, or the client is gone.
func (u *rawUpstream) hold(r *http.Request) {
	u.mu.Lock()
	u.held++
	release := u.release
	u.mu.Unlock()
	select {
	case <-release:
	case <-r.Context().Done():
	}
	u.mu.Lock()
	u.held--
	u.mu.Unlock()
}

// control is for the benchmark: GET answers the number of held calls, DELETE
// releases them, and POST sends an update to all streams.
func (u *rawUpstream) control(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		u.streams.ServeHTTP(w, r)
		return
	case http.MethodDelete:
		u.mu.Lock()
		close(u.release)
		u.release = make(chan struct{})
		u.mu.Unlock()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprint(w, u.held)
}

// plainNonce reports whether s is a nonce that needs no JSON escapes.
func plainNonce(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// serveLines is the upstream over standard input and output. It answers one
// request after the other.
func serveLines(in io.Reader, out io.Writer) error {
	u := newRawUpstream(role{})
	lines := bufio.NewReaderSize(in, 1<<16)
	answers := bufio.NewWriterSize(out, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		req, err := readRequest(line)
		if err != nil {
			return err
		}
		if req.ID.IsZero() {
			continue
		}
		for _, part := range u.answer(req, false) {
			answers.WriteString(part)
		}
		answers.WriteByte('\n')
		if err := answers.Flush(); err != nil {
			return err
		}
	}
}
