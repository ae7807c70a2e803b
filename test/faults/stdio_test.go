package faults

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mcpgateway/test/internal/raw"
)

// maxMessage is the gateway's limit in these tests.
const maxMessage = 1 << 20

// sleeper is the child of a parent: a process that ends only if it is killed.
const sleeper = "sleeper"

// pipe serves a legacy server on standard input and output.
func (s *server) pipe() error {
	switch s.mode {
	case exits:
		fmt.Fprintln(os.Stderr, "cannot find my configuration")
		os.Exit(3)
	case parent:
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		if err := s.multiply(); err != nil {
			return err
		}
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			if s.mode == parent {
				select {} // it ignores the end of its input
			}
			return nil
		}
		m, err := raw.Read(line)
		if err != nil || m.Member("id") == "" || s.mode == mute {
			continue
		}
		switch s.mode {
		case late:
			s.waitFor("go")
		case noisy:
			fmt.Print(garbage)
		case flood:
			say(strings.Repeat("x", 2*maxMessage))
		}
		if m.Method() == "server/discover" {
			say(`{"jsonrpc":"2.0","id":` + m.Member("id") + `,"error":{"code":-32601,"message":"unknown"}}`)
			continue
		}
		if answer, ok := s.basic(m); ok {
			if s.mode == liar {
				lies(m, answer)
			}
			say(answer)
			if s.mode == liar {
				lies(m, answer)
				say(answer)
			}
			continue
		}
		s.fail(m)
	}
}

// garbage is output that some servers print: banners, log lines, malformed messages, bytes that are not UTF-8.
const garbage = "Server listening!\n\n   \n\x00\xff\xfe\n{\"a\":1}\n[1,2]\n{\"jsonrpc\":\"2.0\",\"id\":1,\n\"DEBUG " + inside + "\n" +
	"{\"jsonrpc\":\"2.0\",\"method\":17}\n"

func say(line string) { fmt.Println(line) }

// lies returns answers with unknown ids and with ids of other requests.
func lies(m raw.Message, answer string) {
	id := `"id":` + m.Member("id")
	for _, other := range []string{`"id":99999999`, `"id":"x"`, `"id":-1`, `"id":` + m.Member("id") + `.0`, `"id":"` + m.Member("id") + `"`} {
		say(strings.Replace(strings.Replace(answer, id, other, 1), "content", "lie", 1))
	}
	say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"` + inside + `"}}`)
	say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99999999,"progress":1}}`)
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + m.Member("id") + `}}`)
}

// fail answers a call of a tool that fails.
func (s *server) fail(m raw.Message) {
	name, value := called(m)
	n := s.note(name)
	switch name {
	case "die":
		os.Exit(9)
	case "once":
		if n == 1 {
			os.Exit(9)
		}
		say(result(m, text(fmt.Sprint("call ", n))))
	case "huge":
		say(result(m, text(strings.Repeat("x", maxMessage))))
	case "merged":
		fmt.Print("half a line ")
		say(result(m, text("lost")))
	case "utf8":
		say(result(m, strings.Replace(text("BAD"), "BAD", "\xff", 1)))
	case "lie":
		lies(m, result(m, text("lie")))
	case "broken":
		say(strings.TrimSuffix(result(m, text(inside)), "}") + "]")
	case "hold":
		s.waitFor(value)
		say(result(m, text("held")))
	}
}

// waitFor waits until the test has created a file in the server's folder.
func (s *server) waitFor(file string) {
	for {
		if _, err := os.Stat(filepath.Join(s.dir, file)); err == nil {
			return
		}
		time.Sleep(pollEvery)
	}
}

// multiply starts a child in the process group, and one that leaves the group.
func (s *server) multiply() error {
	for _, away := range []bool{false, true} {
		child := exec.Command(os.Args[0], role, sleeper, s.dir, "stdio")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: away}
		if err := child.Start(); err != nil {
			return err
		}
	}
	return nil
}
