package matrix

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mcpgateway/test/internal/raw"
)

// spec describes one upstream to the process that serves it.
type spec struct {
	Name, Transport string
	Dir             string // has the files fault and control
	Addr            string // "" with stdio
	Certificates    string // the folder with the certificates; "": no TLS
}

// upstream is a server that fails as it is told.
type upstream struct {
	spec
	commands   net.Listener
	mu         sync.Mutex
	kind       string // "" while there is no fault
	moment     string
	changed    chan struct{} // closed and renewed when the fault changes
	hits       int           // how often the fault was met
	greeted    bool          // a handshake was completed since the fault changed
	forgot     bool          // the sessions were forgotten since the fault changed
	tokens     int           // how many tokens were issued
	refused    int           // tokens up to this one are refused
	onChange   func()        // what the transport does at once; called without mu
	onGreeting func()
}

// open returns the upstream with its present fault. The caller sets what the transport does, and then calls obey.
func (s spec) open() (*upstream, error) {
	u := &upstream{spec: s, changed: make(chan struct{}), onChange: func() {}, onGreeting: func() {}}
	file := filepath.Join(s.Dir, "control")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", file)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "fault"))
	if err != nil {
		return nil, err
	}
	u.kind, u.moment, _ = strings.Cut(string(text), " ")
	u.commands = l
	return u, nil
}

// obey begins to obey the test.
func (u *upstream) obey() {
	go func() {
		for {
			conn, err := u.commands.Accept()
			if err != nil {
				return
			}
			u.control(conn)
		}
	}()
}

// control obeys one command of the test: "hits", or a fault and its moment.
func (u *upstream) control(conn net.Conn) {
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	line = strings.TrimSuffix(line, "\n")
	if line == "hits" {
		u.mu.Lock()
		defer u.mu.Unlock()
		fmt.Fprintln(conn, u.hits)
		return
	}
	u.mu.Lock()
	u.kind, u.moment, _ = strings.Cut(line, " ")
	u.hits, u.greeted, u.forgot = 0, false, false
	close(u.changed)
	u.changed = make(chan struct{})
	u.mu.Unlock()
	u.onChange()
	fmt.Fprintln(conn, "ok")
}

// untilOver waits until this fault is over.
func (u *upstream) untilOver(kind string) {
	for {
		now, _, changed := u.now()
		if now != kind {
			return
		}
		<-changed
	}
}

// fault returns the fault that begins at one of these moments, "" if there is none now, and counts it.
func (u *upstream) fault(moments ...string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range moments {
		if u.kind != "" && u.moment == m {
			u.hits++
			return u.kind
		}
	}
	return ""
}

// now returns the present fault without counting it.
func (u *upstream) now() (kind, moment string, changed <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.kind, u.moment, u.changed
}

// broken reports whether connections fail with this fault now, and counts it.
func (u *upstream) broken(kind string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kind != kind || u.moment == atList && !u.greeted {
		return false
	}
	u.hits++
	return true
}

// greet notes that a handshake is complete, and reports whether connections fail from now on.
func (u *upstream) greet() bool {
	u.mu.Lock()
	breaks := !u.greeted && u.moment == atList && breaksConnections(u.kind)
	u.greeted = true
	u.mu.Unlock()
	if breaks {
		u.onGreeting()
	}
	return breaks
}

// faultOf returns the fault that a request of the gateway meets, "" for none.
func (u *upstream) faultOf(m raw.Message) string {
	switch m.Method() {
	case "initialize":
		return u.fault(atConnect)
	case "server/discover":
		return u.fault(atConnect, atRepeat) // in the place of a ping
	case "ping":
		return u.fault(atIdle, atRepeat)
	case "tools/list":
		return u.fault(atList)
	case "tools/call":
		if streams(m) {
			return u.fault(atStream)
		}
		return u.fault(atCall, atRepeat)
	}
	return ""
}

// params are the params of the gateway's requests.
type params struct {
	Arguments struct {
		Text   string
		Stream bool
	}
	Meta struct {
		Token json.RawMessage `json:"progressToken"`
	} `json:"_meta"`
}

func paramsOf(m raw.Message) params {
	var p params
	_ = json.Unmarshal([]byte(m.Member("params")), &p) // missing params are empty
	return p
}

// streams reports whether a request is a call that wants events before its answer.
func streams(m raw.Message) bool { return m.Method() == "tools/call" && paramsOf(m).Arguments.Stream }

// answerTo returns the right answer to a request.
func answerTo(m raw.Message) string {
	result := `{}`
	switch m.Method() {
	case "initialize":
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fault","version":"1"}}`
	case "server/discover":
		result = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
	case "tools/list":
		result = `{"tools":[{"name":"work","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
	case "tools/call":
		result = textResult(paramsOf(m).Arguments.Text)
	}
	return `{"jsonrpc":"2.0","id":` + m.Member("id") + `,"result":` + result + `}`
}

func textResult(text string) string {
	quoted, _ := json.Marshal(text) // encoding a string cannot fail
	return `{"resultType":"complete","content":[{"type":"text","text":` + string(quoted) + `}]}`
}

// hugeResult is over the size limit. It is made once, as the server has to share the machine with the gateway that is measured.
var hugeResult = sync.OnceValue(func() string { return textResult(strings.Repeat("x", 2*maxMessage)) })

// progress returns an event of a call.
func progress(m raw.Message, n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, paramsOf(m).Meta.Token, n)
}

// stranger is an answer to a request that nobody made.
const stranger = `{"jsonrpc":"2.0","id":99999999,"result":` + `{"resultType":"complete","content":[{"type":"text","text":"of another request"}]}}`

// output is where a message goes: standard output, an event stream, or the body of a response.
type output interface {
	// frame returns a message as it is written.
	frame(message string) string
	// write sends bytes at once.
	write(text string)
	// end ends the output properly. stop ends it when a message is incomplete.
	end()
	stop()
}

// send answers a request: two events if it wants them, then its answer with the fault.
func (u *upstream) send(kind string, m raw.Message, o output) {
	if streams(m) {
		o.write(o.frame(progress(m, 1)) + o.frame(progress(m, 2)))
	}
	u.sendFaulty(kind, m.Member("id"), answerTo(m), o)
}

// sendFaulty sends a message with a fault.
func (u *upstream) sendFaulty(kind, id, message string, o output) {
	switch kind {
	case hangs:
		u.untilOver(kind)
		o.write(o.frame(message)) // nobody waits for it any more
	case drips:
		u.drip(o, o.frame(message))
	case half:
		whole := o.frame(message)
		o.write(whole[:len(whole)/2])
		o.stop()
	case wrongID:
		o.write(o.frame(strings.Replace(message, `"id":`+id, `"id":99999999`, 1)))
	case twice:
		o.write(o.frame(message) + o.frame(`{"jsonrpc":"2.0","id":`+id+`,"result":`+textResult("the second answer")+`}`))
	case noAnswer:
		o.end()
	case huge:
		o.write(o.frame(`{"jsonrpc":"2.0","id":` + id + `,"result":` + hugeResult() + `}`))
	case garbage:
		o.write(o.frame("}{ not JSON"))
	case exits, exitLoop:
		u.exit(kind)
	default:
		o.write(o.frame(message))
	}
}

// exit ends the process. With [exits] its next process has no fault.
func (u *upstream) exit(kind string) {
	if kind == exits {
		if err := os.WriteFile(filepath.Join(u.Dir, "fault"), nil, 0o600); err != nil {
			panic(err)
		}
	}
	os.Exit(exitStatus)
}

// exitStatus is the status of servers that exit.
const exitStatus = 3

// drip sends a text byte by byte until the fault changes, then the rest.
func (u *upstream) drip(o output, text string) {
	now, _, changed := u.now()
	for now == drips && len(text) > 0 {
		select {
		case <-time.After(dripEvery):
			o.write(text[:1])
			text = text[1:]
		case <-changed:
			now = ""
		}
	}
	o.write(text)
}

// dripEvery is the pause between two bytes: a whole answer takes longer than the timeout of calls.
const dripEvery = 100 * time.Millisecond

// sendIdle sends what belongs to no request, with a fault. It reports whether the stream goes on.
func (u *upstream) sendIdle(kind string, o output) bool {
	const change = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	switch kind {
	case drips, garbage, half:
		u.sendFaulty(kind, "", change, o)
		return kind != half
	case wrongID, twice:
		o.write(o.frame(stranger) + o.frame(stranger))
		return true
	case huge:
		u.sendFaulty(kind, "99999999", "", o)
		return true
	}
	return false
}
