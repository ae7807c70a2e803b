package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// profileOf returns a profile with a sample for each line: values and the
// functions from the outermost.
func profileOf(lines ...string) *profile.Profile {
	p := &profile.Profile{}
	for _, line := range lines {
		fields := strings.Fields(line)
		s := &profile.Sample{}
		for _, field := range fields[:2] {
			var v int64
			fmt.Sscan(field, &v)
			s.Value = append(s.Value, v)
		}
		for _, name := range fields[2:] {
			s.Location = append([]*profile.Location{{Line: []profile.Line{{Function: &profile.Function{Name: name}}}}}, s.Location...)
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// outline writes a frame with what it calls.
func (f *frame) outline(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%s %v %s\n", indent, f.Name, f.Percent, f.Kind)
	for _, c := range f.Calls {
		c.outline(b, indent+" ")
	}
}

func TestFlameOf(t *testing.T) {
	p := profileOf(
		"1 500 net/http.(*conn).serve mcpgateway/internal/router.(*Router).Handle syscall.write internal/poll.x",
		"1 300 net/http.(*conn).serve mcpgateway/internal/upstream/connector.Do",
		"1 199 runtime.gcBgMarkWorker github.com/x/y.F",
		"1 1 main.rare",
	)
	var b strings.Builder
	flameOf(p).outline(&b, "")
	want := `all 100 runtime
 http.(*conn).serve 80 net
  router.(*Router).Handle 50 gateway
   syscall.write 50 system
  upstream/connector.Do 30 gateway
 runtime.gcBgMarkWorker 19.9 runtime
  y.F 19.9 
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestSitesOf(t *testing.T) {
	p := profileOf(
		"20 400 net/http.serve mcpgateway/internal/router.Handle bytes.Clone",
		"10 100 net/http.serve mcpgateway/internal/router.Handle bytes.Clone",
		"10 900 net/http.serve mcpgateway/internal/router.Handle mcpgateway/internal/wire.Edit",
		"30 300 net/http.serve net/textproto.readMIMEHeader",
	)
	got := fmt.Sprint(sitesOf(p, 10))
	if want := "[{wire.Edit  1 90} {bytes.Clone router.Handle 3 50} {textproto.readMIMEHeader  3 30}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestShortName(t *testing.T) {
	for function, want := range map[string]string{
		"mcpgateway/internal/frontend/park.(*Table).Add": "frontend/park.(*Table).Add",
		"mcpgateway/internal/router.(*Router).Handle":    "router.(*Router).Handle",
		"github.com/a/b.F[github.com/c/d.T]":             "b.F[github.com/c/d.T]",
		"net/http.(*conn).serve":                         "http.(*conn).serve",
		"runtime.mallocgc":                               "runtime.mallocgc",
	} {
		if got := shortName(function); got != want {
			t.Errorf("%s: %s, want %s", function, got, want)
		}
	}
}
