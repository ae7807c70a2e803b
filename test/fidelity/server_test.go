package fidelity

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"mcpgateway/test/internal/raw"
)

// Members around the members that JSON-RPC defines, in responses and notifications.
const (
	envelopeBefore = `"x-before":{"z":1e2,"a":9007199254740993,"a":1},`
	envelopeAfter  = `,"x-after":["\u0041",-0]`
)

// server answers in one era.
type server struct {
	era      string
	received *os.File
}

// serve runs the server until its input ends, or for ever. It writes every received message to the file as a line with a JSON string.
func serve(era, file, addr string) error {
	received, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s := &server{era, received}
	if addr != "stdio" {
		return http.ListenAndServe(addr, s)
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		for _, m := range s.answer(strings.TrimSuffix(line, "\n")) {
			fmt.Println(oneLine(m))
		}
	}
}

// oneLine returns a message in the form that stdio can carry.
func oneLine(text string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(text) }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	messages := s.answer(string(body))
	if s.era == "legacy" {
		w.Header().Set("Mcp-Session-Id", "odd")
	}
	switch len(messages) {
	case 0:
		w.WriteHeader(http.StatusAccepted)
	case 1:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if s.era == "legacy" && r.Header.Get("Mcp-Method") != "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, "\r\n "+messages[0]+"\r\n")
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		for _, m := range messages {
			fmt.Fprintf(w, "data: %s\n\n", strings.ReplaceAll(m, "\n", "\ndata: "))
		}
	}
}

// answer returns the messages that answer a message. The response is the last.
func (s *server) answer(text string) []string {
	line, _ := json.Marshal(text) // encoding a string cannot fail
	s.received.Write(append(line, '\n'))
	m, err := raw.Read(text)
	if err != nil || m.Member("id") == "" {
		return nil
	}
	respond := func(member, value string) []string {
		return []string{`{` + envelopeBefore + `"` + member + `" : ` + value + `,"id":` + m.Member("id") + `,"jsonrpc":"2.0"` + envelopeAfter + `}`}
	}
	switch method := m.Method(); {
	case method == "initialize" && s.era == "legacy":
		return respond("result", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"serverInfo":{"name":"odd","version":"1"},"x":`+wild+`}`)
	case method == "server/discover" && s.era == "modern":
		return respond("result", `{"supportedVersions":["2099-01-01","2026-07-28"],"capabilities":`+capabilities+`,"resultType":"complete","ttlMs":0,"cacheScope":"public","x":`+wild+`}`)
	case (method == "ping" || method == "logging/setLevel") && s.era == "legacy":
		return respond("result", `{}`)
	}
	for _, l := range lists {
		if m.Method() == l.method && !strings.Contains(m.Member("params"), `"uri":`) {
			return s.list(m, l.member, l.items, l.broken, respond)
		}
	}
	var params struct {
		Name, URI string
		Ref       struct{ Name, URI string }
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal([]byte(m.Member("params")), &params); err != nil {
		return respond("error", `{"code":-32602,"message":"bad params"}`)
	}
	for _, c := range calls {
		if c.method != m.Method() || c.item != params.Name+params.URI+params.Ref.Name+params.Ref.URI {
			continue
		}
		var out []string
		for _, n := range c.notes {
			text := strings.ReplaceAll(n.params, "TOKEN", string(params.Meta.ProgressToken))
			out = append(out, `{`+envelopeBefore+`"jsonrpc":"2.0", "params" :`+text+`,"method":"`+n.method+`"`+envelopeAfter+`}`)
		}
		if c.fault != "" {
			return append(out, respond("error", c.fault)...)
		}
		return append(out, respond("result", c.result)...)
	}
	return respond("error", `{"code":-32601,"message":"unknown"}`)
}

const capabilities = `{"x":{"a":1e2},"tools":{},"prompts":{"x":1},"resources":{},"completions":{},"logging":{}}`

// list returns a page: the first has one item, the second has the others.
func (s *server) list(m raw.Message, member string, items, broken []string, respond func(string, string) []string) []string {
	const cursor = `"\u0041\/\ud83d 9007199254740993"`
	page, next := items[:1], `"nextCursor":`+cursor+`,`
	switch params := m.Member("params"); {
	case strings.Contains(params, `"cursor":`+cursor):
		page, next = append(append([]string{}, broken...), items[1:]...), ""
	case strings.Contains(params, `"cursor"`):
		return respond("error", `{"code":-32602,"message":"this cursor is not to the letter what the page before gave"}`)
	}
	return respond("result", `{"ttlMs":0,`+next+`"cacheScope":"private","`+member+`":[`+strings.Join(page, " ,\n")+`],"resultType":"complete"}`)
}
