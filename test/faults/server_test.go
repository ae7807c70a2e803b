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

// The modes of a server. Every one has the tool echo, which answers with its pid and the text that it was given; what it does wrong it does in a
// tool of its own, unless it does nothing right at all.
const (
	good   = "good"   // nothing is wrong
	late   = "late"   // answers nothing before a file appears
	mute   = "mute"   // never answers anything
	exits  = "exits"  // exits at once
	dies   = "dies"   // die exits in the middle of the call; once does so in its first life and may be repeated
	noisy  = "noisy"  // garbage around every message; see garbage
	flood  = "flood"  // a line over every limit before every message
	html   = "html"   // answers everything with a page
	crowd  = "crowd"  // 10,000 tools on 100 pages
	liar   = "liar"   // answers with ids of others, and often
	broken = "broken" // broken answers with malformed JSON
	cutter = "cutter" // cut breaks off in the middle of the answer
	slow   = "slow"   // sleep never answers
	reborn = "reborn" // has one tool more in every life
	parent = "parent" // has children and grandchildren that do not want to end
	parked = "parked" // hold answers when a file appears
	shifty = "shifty" // describes echo by what a file says, in every life anew
)

// crowdTools and crowdPages are what a crowd has.
const crowdTools, crowdPages = 10_000, 100

// inside is what servers say and nobody but the gateway's operator may read.
const inside = "hunter2-inside"

// play is a server until its input ends, or for ever.
func play(mode, dir, addr string) error {
	if mode == sleeper {
		select {}
	}
	s := &server{mode: mode, dir: dir, life: countLife(dir)}
	if addr != "stdio" {
		return s.listen(addr)
	}
	return s.pipe()
}

// server is one life of a server.
type server struct {
	mode, dir string
	life      int
}

// countLife counts how often a server was started with the folder.
func countLife(dir string) int {
	file, err := os.OpenFile(filepath.Join(dir, "lives"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
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

// note leaves a mark that a tool was called, and returns how often that was.
func (s *server) note(tool string) int {
	dir := filepath.Join(s.dir, tool)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	return countLife(dir)
}

func result(m raw.Message, value string) string {
	return `{"jsonrpc":"2.0","id":` + m.Member("id") + `,"result":` + value + `}`
}

func text(s string) string {
	quoted, _ := json.Marshal(s) // of a string; it cannot fail
	return `{"resultType":"complete","content":[{"type":"text","text":` + string(quoted) + `}]}`
}

// basic answers what has nothing to do with the faults.
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

// called returns the name of the tool that is called and the text that it is called with.
func called(m raw.Message) (name, value string) {
	var params struct {
		Name      string
		Arguments struct{ Text string }
	}
	if m.Method() == "tools/call" {
		_ = json.Unmarshal([]byte(m.Member("params")), &params) // what is not there is empty
	}
	return params.Name, params.Arguments.Text
}

func (s *server) list(m raw.Message) string {
	if s.mode == crowd {
		return crowded(m)
	}
	tools := []string{tool("echo", "")}
	if s.mode == shifty {
		said, _ := os.ReadFile(filepath.Join(s.dir, "description")) // it may not be there
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

// faultyTools are the tools beside echo.
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
	_ = json.Unmarshal([]byte(m.Member("params")), &params) // what is not there is empty
	page, _ := strconv.Atoi(params.Cursor)                  // the first page has none
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
