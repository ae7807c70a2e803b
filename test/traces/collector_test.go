package traces

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/netns"
)

// line is what the collector prints, see collector/main.go.
type line struct {
	Signal, Name, Kind, Status, Trace, Span, Parent string
	Unit, Temporality                               string
	Links                                           []string
	Resource, Attrs                                 map[string]any
	Exemplars, Auth                                 []string
}

// collector is a running collector.
type collector struct {
	grpc, http string // URLs
	end        func() // ends the collector. All that it got is in lines then.

	mu    sync.Mutex
	lines []line
}

// binary returns the collector, which is built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "collector")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "collector")
	build := exec.Command("go", "build", "-o", file, ".")
	build.Dir = "collector"
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the collector: %w\n%s", err, out)
	}
	return file, nil
})

// startCollector runs a collector until the end of the test, with TLS if there are files of it: the certificate, its key, and
// the authority of clients.
func startCollector(t *testing.T, files ...string) *collector {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	scheme := "http://"
	if len(files) > 0 {
		scheme = "https://"
	}
	grpc, http := netns.Addr(), netns.Addr()
	c := &collector{grpc: scheme + grpc, http: scheme + http}
	cmd := exec.Command(file, append([]string{grpc, http}, files...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var diagnostics bytes.Buffer
	cmd.Stderr = &diagnostics
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		in := bufio.NewScanner(out)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var l line
			if json.Unmarshal(in.Bytes(), &l) == nil {
				c.mu.Lock()
				c.lines = append(c.lines, l)
				c.mu.Unlock()
			}
		}
	}()
	c.end = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("the collector: %v\n%s", err, &diagnostics)
		}
	})
	t.Cleanup(c.end)
	c.await(t, func(l line) bool { return l.Signal == "ready" })
	return c
}

// find returns the first line that matches.
func (c *collector) find(match func(line) bool) (line, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if match(l) {
			return l, true
		}
	}
	return line{}, false
}

// await waits for a line.
func (c *collector) await(t *testing.T, match func(line) bool) line {
	t.Helper()
	var found line
	polltest.Until(t, "a line of the collector", func() bool {
		var ok bool
		found, ok = c.find(match)
		return ok
	})
	return found
}

// trace returns the spans of a trace as a tree: each span on a line, indented below its parent.
// Spans whose parent the collector has not got begin the tree.
func (c *collector) trace(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	var spans []line
	for _, l := range c.lines {
		if l.Signal == "span" && l.Trace == id {
			known[l.Span] = true
			spans = append(spans, l)
		}
	}
	var out strings.Builder
	var write func(parent string, depth int)
	write = func(parent string, depth int) {
		for _, l := range spans {
			if l.Parent == parent || depth == 0 && !known[l.Parent] {
				fmt.Fprintf(&out, "%s%s (%s)\n", strings.Repeat("  ", depth), l.Name, strings.ToLower(l.Kind))
				write(l.Span, depth+1)
			}
		}
	}
	write("none", 0)
	return out.String()
}

// forget drops what the collector has got so far.
func (c *collector) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = nil
}
