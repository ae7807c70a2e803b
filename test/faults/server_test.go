package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mcpgateway/test/internal/raw"
)

// The modes of a server. Every server has the tool echo, which returns its pid and the given text. A server that fails only sometimes fails in a tool
// of its own.
const (
	good   = "good"   // has no fault
	late   = "late"   // does not answer before a file appears
	mute   = "mute"   // never answers anything
	exits  = "exits"  // exits at once
	dies   = "dies"   // die exits during the call; once does so in the first process only and may be retried
	noisy  = "noisy"  // prints garbage around every message
	flood  = "flood"  // prints a line over every limit before every message
	html   = "html"   // answers everything with an HTML page
	crowd  = "crowd"  // has 10,000 tools on 100 pages
	liar   = "liar"   // answers with ids of other requests, several times
	broken = "broken" // broken answers with malformed JSON
	cutter = "cutter" // cut ends the connection in the middle of the answer
	slow   = "slow"   // sleep never answers
	reborn = "reborn" // has one more tool in every new process
	parent = "parent" // has children and grandchildren that ignore signals
	parked = "parked" // hold answers when a file appears
	shifty = "shifty" // reads the description of echo from a file in every new process
)

// crowdTools and crowdPages are the numbers of tools and pages of a crowd.
const crowdTools, crowdPages = 10_000, 100

// inside is output of servers that only the gateway's operator may read.
const inside = "hunter2-inside"

// serve runs a server until its input ends, or for ever.
func serve(mode, dir, addr string) error {
	if mode == sleeper {
		select {}
	}
	s := &server{mode: mode, dir: dir, life: countStart(dir)}
	if addr != "stdio" {
		return s.listen(addr)
	}
	return s.pipe()
}

// server is one process of a server.
type server struct {
	mode, dir string
	life      int
}

// countStart counts the starts of a server, in a file of its folder.
func countStart(dir string) int {
	file, err := os.OpenFile(filepath.Join(dir, "starts"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	file.WriteString(".")
	info, err := file.Stat()
	if err != nil {
		panic(err)
	}
	return int(info.Size())
}

// note records a call of a tool and returns the number of its calls.
func (s *server) note(tool string) int {
	dir := filepath.Join(s.dir, tool)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	return countStart(dir)
}

func result(m raw.Message, value string) string {
	return `{"jsonrpc":"2.0","id":` + m.Member("id") + `,"result":` + value + `}`
}

func text(s string) string {
	quoted, _ := json.Marshal(s) // encoding a string cannot fail
	return `{"resultType":"complete","content":[{"type":"text","text":` + string(quoted) + `}]}`
}

// basic answers requests that have nothing to do with the faults.
func (s *server) basic(m raw.Message) (answer string, ok bool) {
	switch m.Method() {
	case "initialize":
		return result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"faulty","version":"1"}}`), true
	case "server/discover":
		return result(m, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}`), true
	case "ping":
		return result(m, `{}`), true
	case "tools/list":
		return result(m, s.list(m)), true
	}
	if name, value := called(m); name == "echo" {
		return result(m, text(fmt.Sprint(os.Getpid(), " ", value))), true
	}
	return "", false
}

// called returns the name and the text of a tool call.
func called(m raw.Message) (name, value string) {
	var params struct {
		Name      string
		Arguments struct{ Text string }
	}
	if m.Method() == "tools/call" {
		_ = json.Unmarshal([]byte(m.Member("params")), &params) // missing params are empty
	}
	return params.Name, params.Arguments.Text
}

func (s *server) list(m raw.Message) string {
	if s.mode == crowd {
		return crowded(m)
	}
	tools := []string{tool("echo", "")}
	if s.mode == shifty {
		said, _ := os.ReadFile(filepath.Join(s.dir, "description")) // the file may be missing
		tools = []string{tool("echo", `,"description":"`+string(said)+`"`)}
	}
	for _, name := range faultyTools[s.mode] {
		hint := ""
		if name == "once" {
			hint = `,"annotations":{"readOnlyHint":true}`
		}
		tools = append(tools, tool(name, hint))
	}
	if s.mode == reborn {
		tools = append(tools, tool(fmt.Sprint("life-", s.life), ""))
	}
	return `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + strings.Join(tools, ",") + `]}`
}

// faultyTools returns the tools other than echo.
var faultyTools = map[string][]string{
	dies:   {"die", "once"},
	noisy:  {"huge", "merged", "utf8"},
	liar:   {"lie"},
	broken: {"broken"},
	cutter: {"cut", "cut-stream"},
	slow:   {"sleep"},
	parked: {"hold"},
}

func tool(name, more string) string {
	return `{"name":"` + name + `","inputSchema":{"type":"object"}` + more + `}`
}

func crowded(m raw.Message) string {
	var params struct{ Cursor string }
	_ = json.Unmarshal([]byte(m.Member("params")), &params) // missing params are empty
	page, _ := strconv.Atoi(params.Cursor)                  // the first page has no cursor
	var tools []string
	for i := range crowdTools / crowdPages {
		tools = append(tools, tool(fmt.Sprintf("t%05d", page*crowdTools/crowdPages+i), ""))
	}
	next := ""
	if page+1 < crowdPages {
		next = fmt.Sprintf(`"nextCursor":"%d",`, page+1)
	}
	return `{` + next + `"tools":[` + strings.Join(tools, ",") + `]}`
}
