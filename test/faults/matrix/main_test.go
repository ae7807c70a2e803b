package matrix

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"mcpgateway/test/internal/rig"

	"go.uber.org/goleak"
)

// role as the first argument makes this binary a server of the upstreams that the file in the second argument describes.
const role = "fault-server"

var update = flag.Bool("update", false, "write testdata/cells.txt and docs/reliability.md")

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == role {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rig.Enter()
	if err := addNameserver(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot run these tests:", err)
		os.Exit(1)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "1000"); err != nil { // cells do little but wait
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// serve serves the upstreams of a file: one on standard input and output, or any number over HTTP until the process is killed.
func serve(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var specs []spec
	if err := json.Unmarshal(text, &specs); err != nil {
		return err
	}
	named := map[string]*web{}
	for _, s := range specs {
		u, err := s.open()
		if err != nil {
			return err
		}
		if s.Transport == stdio {
			return u.pipe()
		}
		w := newWeb(u)
		if err := w.open(); err != nil {
			return err
		}
		if strings.HasPrefix(s.Name, dns) {
			named[s.Name] = w
		}
	}
	if len(named) > 0 {
		if err := resolve(named); err != nil {
			return err
		}
	}
	fmt.Println("serving")
	select {}
}
