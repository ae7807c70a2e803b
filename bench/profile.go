package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// profileWorkload is the workload that measures no ratio: it profiles the gateway
// while calls are made.
const profileWorkload = "profile"

// profiled is the profile of a gateway under one kind of load.
type profiled struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Calls int    `json:"calls"` // during the profile
	Flame *frame `json:"flame"` // by processor time
	Sites []site `json:"sites"` // that allocate most
}

// frame is a function in a flame graph, with what it calls.
type frame struct {
	Name    string   `json:"n"`
	Percent float64  `json:"p"` // of the whole graph
	Kind    string   `json:"k,omitempty"`
	Calls   []*frame `json:"c,omitempty"`
}

// site is a function that allocates memory.
type site struct {
	Function string  `json:"function"`
	For      string  `json:"for,omitempty"` // the innermost function of the gateway that called it
	Objects  float64 `json:"objects"`       // for each call
	Bytes    float64 `json:"bytes"`
}

const (
	minPercent = 0.5 // frames below that are left out of the flame graph
	topSites   = 15
)

// profile profiles the gateway bare and with everything on.
func (s *stage) profile(ctx context.Context) ([]profiled, error) {
	kinds := []struct {
		name, about string
		change      func(context.Context, *stage, *gatewayConfig, *target) error
	}{
		{viaGateway, "16 legacy clients, 1 KiB of text", nil},
		{pathFull, "16 legacy clients, 1 KiB of text, API keys, 200 rules with a condition and an audit", everythingOn},
	}
	var all []profiled
	for _, kind := range kinds {
		p, err := s.profileCalls(ctx, kind.name, kind.change)
		if err != nil {
			return all, fmt.Errorf("profile of %s: %w", kind.name, err)
		}
		p.About = kind.about
		all = append(all, p)
	}
	return all, nil
}

func (s *stage) profileCalls(ctx context.Context, name string, change func(context.Context, *stage, *gatewayConfig, *target) error) (profiled, error) {
	t := &target{Era: eraLegacy, callArguments: callArguments{Size: 1 << 10}}
	c := calls{Via: viaGateway, Era: eraLegacy, UpstreamEra: eraLegacy}
	c.Change = func(ctx context.Context, s *stage, config *gatewayConfig, t *target) error {
		config.Admin["pprof"] = true
		if change == nil {
			return nil
		}
		return change(ctx, s, config, t)
	}
	g, err := c.startGateway(ctx, s, t)
	if err != nil {
		return profiled{}, err
	}
	length := max(time.Second, (5 * s.load.Duration).Round(time.Second))
	raw := make([][]byte, 2)
	failed := make(chan error, len(raw))
	begin := time.Now().Add(s.load.Warmup)
	for i, kind := range []string{"profile", "allocs"} {
		go func() {
			select {
			case <-time.After(time.Until(begin)):
			case <-ctx.Done():
			}
			var err error
			raw[i], err = fetch(ctx, http.DefaultClient, fmt.Sprintf("%s/debug/pprof/%s?seconds=%.0f", g.Admin, kind, length.Seconds()))
			failed <- err
		}()
	}
	figures, err := load{Clients: 16, Warmup: s.load.Warmup, Duration: length}.run(ctx, g.PID, t.opener())
	if err := errors.Join(err, <-failed, <-failed); err != nil {
		return profiled{}, err
	}
	if s.Profiles != "" {
		if err := errors.Join(os.WriteFile(filepath.Join(s.Profiles, name+".cpu.pprof"), raw[0], 0o644),
			os.WriteFile(filepath.Join(s.Profiles, name+".allocs.pprof"), raw[1], 0o644)); err != nil {
			return profiled{}, err
		}
	}
	p := profiled{Name: name, Calls: int(figures[perSecond] * length.Seconds())}
	times, err := profile.Parse(bytes.NewReader(raw[0]))
	if err != nil {
		return profiled{}, err
	}
	allocations, err := profile.Parse(bytes.NewReader(raw[1]))
	if err != nil {
		return profiled{}, err
	}
	p.Flame, p.Sites = flameOf(times), sitesOf(allocations, p.Calls)
	return p, nil
}

// functions returns the names of the functions of a sample, the outermost first.
func functions(s *profile.Sample) (names []string) {
	for _, location := range slices.Backward(s.Location) {
		for _, line := range slices.Backward(location.Line) {
			names = append(names, line.Function.Name)
		}
	}
	return names
}

// flameOf returns the flame graph of a profile by its last value. Functions with
// little are left out.
func flameOf(p *profile.Profile) *frame {
	root := &node{}
	for _, s := range p.Sample {
		root.add(functions(s), s.Value[len(s.Value)-1])
	}
	return root.frame("all", root.value)
}

// node is a function while a flame graph is made.
type node struct {
	value int64
	calls map[string]*node
}

func (n *node) add(names []string, value int64) {
	n.value += value
	if len(names) == 0 {
		return
	}
	if n.calls == nil {
		n.calls = make(map[string]*node)
	}
	next := n.calls[names[0]]
	if next == nil {
		next = &node{}
		n.calls[names[0]] = next
	}
	next.add(names[1:], value)
}

// frame returns the frame of n. Names have no path of the package.
func (n *node) frame(name string, total int64) *frame {
	f := &frame{Name: shortName(name), Kind: kindOf(name), Percent: round(100 * float64(n.value) / float64(max(total, 1)))}
	if f.Kind == kindSystem {
		return f // the layers below a system call say nothing more
	}
	for _, called := range slices.Sorted(maps.Keys(n.calls)) {
		if c := n.calls[called]; 100*float64(c.value) >= minPercent*float64(total) {
			f.Calls = append(f.Calls, c.frame(called, total))
		}
	}
	return f
}

// shortName returns the name of a function with the last element of its package's
// path. Functions of the gateway keep the path below internal.
func shortName(function string) string {
	function = strings.TrimPrefix(function, "mcpgateway/internal/")
	brackets := strings.IndexAny(function, "[(")
	if brackets < 0 {
		brackets = len(function)
	}
	if ours[strings.SplitN(function, "/", 2)[0]] {
		return function
	}
	return function[strings.LastIndexByte(function[:brackets], '/')+1:]
}

// ours are the packages of the gateway that have packages below them.
var ours = map[string]bool{"frontend": true, "upstream": true}

// isOurs reports whether a function belongs to the gateway.
func isOurs(function string) bool { return strings.HasPrefix(function, "mcpgateway/internal/") }

// The kinds of functions, which have colors of their own.
const (
	kindGateway = "gateway"
	kindNet     = "net"
	kindRuntime = "runtime"
	kindSystem  = "system"
)

// kindOf returns the kind of a function, "" for other libraries.
func kindOf(function string) string {
	for _, k := range []struct{ kind, prefixes string }{
		{kindGateway, "mcpgateway/ main."},
		{kindSystem, "syscall. internal/poll. internal/runtime/syscall golang.org/x/sys/"},
		{kindNet, "net. net/ bufio. io. crypto/"},
		{kindRuntime, "all runtime. runtime/ time. internal/ sync. sync/ gcWriteBarrier memeqbody memmove aeshashbody"},
	} {
		for prefix := range strings.FieldsSeq(k.prefixes) {
			if strings.HasPrefix(function, prefix) {
				return k.kind
			}
		}
	}
	return ""
}

// sitesOf returns the functions that allocate most bytes.
func sitesOf(p *profile.Profile, calls int) []site {
	byName := make(map[[2]string]*site)
	for _, s := range p.Sample {
		names := functions(s)
		if len(names) == 0 || len(s.Value) < 2 {
			continue
		}
		leaf, caller := names[len(names)-1], ""
		for _, name := range slices.Backward(names[:len(names)-1]) {
			if isOurs(name) && !isOurs(leaf) {
				caller = shortName(name)
				break
			}
		}
		key := [2]string{shortName(leaf), caller}
		if byName[key] == nil {
			byName[key] = &site{Function: key[0], For: caller}
		}
		byName[key].Objects += float64(s.Value[0])
		byName[key].Bytes += float64(s.Value[1])
	}
	sites := slices.SortedFunc(maps.Values(byName), func(a, b *site) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Function, b.Function))
	})
	var top []site
	for _, s := range sites[:min(topSites, len(sites))] {
		s.Objects, s.Bytes = round(s.Objects/float64(max(calls, 1))), round(s.Bytes/float64(max(calls, 1)))
		top = append(top, *s)
	}
	return top
}
