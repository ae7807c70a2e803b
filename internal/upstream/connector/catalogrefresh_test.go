package connector

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// lister is a legacy server with these capabilities. list answers its list requests.
func lister(capabilities string, list func(l *upstreamtest.Instance, m wire.Message)) *upstreamtest.Server {
	return &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
		switch {
		case m.Method == wire.MethodInitialize:
			l.Result(m, `{"protocolVersion":"2025-06-18","capabilities":`+capabilities+`}`)
		case strings.HasSuffix(m.Method, "/list"):
			list(l, m)
		}
	}}
}

func TestTenThousandTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lister(`{"tools":{}}`, func(l *upstreamtest.Instance, m wire.Message) {
			n := 0
			fmt.Sscanf(wire.ValueOf(m.Params).Get("cursor").Str(), "p%d", &n)
			l.Result(m, page(n, 100, 100))
		})
		r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
		tools := r.watch.wait(t, isReady).Catalog.Tools
		if len(tools) != 10_000 {
			t.Fatalf("%d tools", len(tools))
		}
		for i, tool := range tools {
			if want := fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i); string(tool) != want {
				t.Fatalf("tool %d is %s, want %s", i, tool, want)
			}
		}
	})
}

func TestInvalidLists(t *testing.T) {
	const good = `{"prompts":[{"name":"p"}]}`
	for _, tt := range []struct {
		name string
		list func(l *upstreamtest.Instance, m wire.Message) // answers tools/list
		want string                                         // reason
	}{
		{"no array", func(l *upstreamtest.Instance, m wire.Message) { l.Result(m, `{"tools":{}}`) }, `tools/list: the result has no array "tools"`},
		{"no object", func(l *upstreamtest.Instance, m wire.Message) { l.Result(m, `7`) }, `tools/list: the result in the server's answer is no object`},
		{"no member", func(l *upstreamtest.Instance, m wire.Message) { l.Result(m, `{"prompts":[]}`) }, `tools/list: the result has no array "tools"`},
		{"malformed", func(l *upstreamtest.Instance, m wire.Message) { l.Line(`{"jsonrpc":"2.0","id":%s}`, m.ID) }, `tools/list: the server's answer is malformed`},
		{"error", func(l *upstreamtest.Instance, m wire.Message) { l.Refuse(m, -32000, "no") }, `tools/list: no (-32000)`},
		{"unknown on page two", func(l *upstreamtest.Instance, m wire.Message) {
			if m.Params == nil {
				l.Result(m, page(0, 2, 1))
			} else {
				l.Refuse(m, wire.CodeMethodNotFound, "what?")
			}
		}, `tools/list: what? (-32601)`},
		{"circle", func(l *upstreamtest.Instance, m wire.Message) { l.Result(m, `{"tools":[],"nextCursor":"x"}`) }, `tools/list: the pages go round in circles: a cursor came twice`},
		{"pages without end", func() func(l *upstreamtest.Instance, m wire.Message) {
			var n atomic.Int64
			return func(l *upstreamtest.Instance, m wire.Message) {
				l.Result(m, fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n.Add(1)))
			}
		}(), `tools/list: more than 1000 pages`},
		{"too many", func(l *upstreamtest.Instance, m wire.Message) {
			l.Result(m, `{"tools":[`+strings.Repeat("0,", maxItems)+`0]}`)
		}, `tools/list: more than 100000 items or 64 MiB`},
		{"silence", func(*upstreamtest.Instance, wire.Message) {}, `tools/list: no answer within 1m0s`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := atomic.Bool{}
				s := lister(`{"tools":{"listChanged":true},"prompts":{"listChanged":true}}`, func(l *upstreamtest.Instance, m wire.Message) {
					switch {
					case m.Method == wire.MethodPromptsList:
						l.Result(m, good)
					case broken.Load():
						tt.list(l, m)
					default:
						l.Result(m, upstreamtest.TwoTools)
					}
				})
				r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
				r.watch.wait(t, isReady)
				broken.Store(true)
				s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				shot := r.watch.wait(t, func(s Snapshot) bool { return s.State == Degraded })
				if shot.Reason != tt.want {
					t.Errorf("reason %q, want %q", shot.Reason, tt.want)
				}
				if len(shot.Catalog.Tools) != 2 || len(shot.Catalog.Prompts) != 1 {
					t.Errorf("catalog %+v: the last valid items are missing", shot.Catalog)
				}
				broken.Store(false) // the gateway retries without a notification
				time.Sleep(40 * time.Second)
				if last := r.Snapshot(); last.State != Ready || last.Reason != "" || last.Failed != (FailedLists{}) {
					t.Errorf("it did not recover: %s, %q", last.State, last.Reason)
				}
			})
		})
	}
}

// A failed first list does not affect the other lists.
func TestFirstListFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lister(`{"tools":{},"prompts":{},"resources":{}}`, func(l *upstreamtest.Instance, m wire.Message) {
			switch m.Method {
			case wire.MethodToolsList:
				l.Result(m, `{"items":[]}`)
			case wire.MethodPromptsList:
				l.Result(m, `{"prompts":[{"name":"p"}]}`)
			case wire.MethodResourcesList:
				l.Result(m, `"none"`)
			case wire.MethodTemplatesList:
				l.Result(m, `{"resourceTemplates":[{"name":"t","uriTemplate":"t:{x}"}]}`)
			}
		})
		r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
		shot := r.watch.wait(t, func(s Snapshot) bool { return s.State == Degraded })
		if want := `tools/list: the result has no array "tools"; resources/list: the result in the server's answer is no object`; shot.Reason != want {
			t.Errorf("reason %q, want %q", shot.Reason, want)
		}
		failed := shot.Failed
		if want := `tools/list: the result has no array "tools"`; failed.Tools.Reason != want || failed.Tools.Since.IsZero() || failed.Resources.Reason == "" || failed.Prompts.Reason+failed.Templates.Reason != "" {
			t.Errorf("failed lists %+v", failed)
		}
		if shot.Unlisted() {
			t.Error("a prompt is known, and the snapshot says that nothing is")
		}
		if c := shot.Catalog; len(c.Tools) != 0 || len(c.Prompts) != 1 || len(c.Resources) != 0 || len(c.Templates) != 1 {
			t.Errorf("catalog %+v, want the prompt and the template", c)
		}
	})
}

// A list is empty if the server does not declare it or does not know its method.
func TestEmptyLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lister(`{"resources":{},"prompts":{}}`, func(l *upstreamtest.Instance, m wire.Message) {
			switch m.Method {
			case wire.MethodResourcesList:
				l.Result(m, `{"resources":[{"uri":"a:b"}],"nextCursor":""}`)
			case wire.MethodPromptsList:
				l.Result(m, `{"prompts":[],"nextCursor":null}`)
			default:
				l.Refuse(m, wire.CodeMethodNotFound, "unknown")
			}
		})
		r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
		shot := r.watch.wait(t, isReady)
		if c := shot.Catalog; len(c.Resources) != 1 || len(c.Templates)+len(c.Prompts)+len(c.Tools) != 0 {
			t.Errorf("catalog %+v", c)
		}
		for _, m := range s.Instance(1).Methods() {
			if m == wire.MethodToolsList {
				t.Error("the gateway requested a list that the server does not declare")
			}
		}
	})
}

func TestListChanges(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration // time to answer a list
	}{{"quick list", 0}, {"slow list", 5 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listed := atomic.Int64{}
				s := lister(`{"tools":{"listChanged":true}}`, func(l *upstreamtest.Instance, m wire.Message) {
					if listed.Add(1) > 1 {
						time.Sleep(tt.takes) // synthetic time
					}
					l.Result(m, upstreamtest.TwoTools)
				})
				r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
				before := r.watch.wait(t, isReady)
				began := time.Now()
				for range 10 { // the gateway reports a burst as one change
					s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				after := r.watch.wait(t, func(s Snapshot) bool { return s.Changes.Tools == 1 })
				if took := time.Since(began); took > 200*time.Millisecond {
					t.Errorf("clients are notified after %s", took)
				}
				if &after.Catalog.Tools[0] != &before.Catalog.Tools[0] {
					t.Error("an unchanged list was reported as changed")
				}
				time.Sleep(time.Minute)
				if got := r.Snapshot().Changes; got != (Changes{Tools: 1}) {
					t.Errorf("changes %+v", got)
				}
				if got := listed.Load(); got != 2 {
					t.Errorf("listed %d times, want 2", got)
				}
			})
		})
	}
}

// Lists are polled only if the server sends no notifications about them, and at a
// bounded rate.
func TestPolling(t *testing.T) {
	for _, tt := range []struct {
		name, capabilities, ttl string
		min, max                int64 // listings in the first five minutes
	}{
		{"notifications", `{"tools":{"listChanged":true}}`, ``, 1, 1},
		{"no notifications", `{"tools":{}}`, ``, 9, 11},
		{"fresh for longer", `{"tools":{}}`, `,"ttlMs":120000`, 3, 3},
		{"fresh for shorter", `{"tools":{}}`, `,"ttlMs":10`, 9, 11},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listed := atomic.Int64{}
				s := lister(tt.capabilities, func(l *upstreamtest.Instance, m wire.Message) {
					listed.Add(1)
					l.Result(m, `{"tools":[{"name":"a"}]`+tt.ttl+`}`)
				})
				r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
				time.Sleep(5 * time.Minute)
				if got := listed.Load(); got < tt.min || got > tt.max {
					t.Errorf("listed %d times, want %d to %d", got, tt.min, tt.max)
				}
				if got := len(r.watch.all()); got != 1 {
					t.Errorf("%d snapshots, want 1: nothing has changed", got)
				}
			})
		})
	}
}

func TestBurstOfSeveralKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lister(`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}`, func(l *upstreamtest.Instance, m wire.Message) {
			l.Result(m, `{"tools":[],"prompts":[],"resources":[],"resourceTemplates":[]}`)
		})
		r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
		r.watch.wait(t, isReady)
		for _, kind := range []string{"tools", "prompts", "resources"} {
			s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}`, kind)
		}
		r.watch.wait(t, func(s Snapshot) bool { return s.Changes == Changes{1, 1, 1} })
		if got := len(r.watch.all()); got != 2 {
			t.Errorf("%d snapshots, want 2: a burst is one change", got)
		}
		synctest.Wait()
		if got := len(s.Instance(1).Methods()); got != 2+4+4 {
			t.Errorf("the server got %q", s.Instance(1).Methods())
		}
	})
}

// The server's error messages are bounded in size and logged once, for a failed
// handshake and for a failed list.
func TestReasonsAreBounded(t *testing.T) {
	for name, refuses := range map[string]string{"down": wire.MethodInitialize, "degraded": wire.MethodToolsList} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.WarnLevel)
				s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method == refuses {
						l.Refuse(m, wire.CodeInternal, strings.Repeat("ö", 1<<19))
						return
					}
					upstreamtest.Legacy(nil)(l, m)
				}}
				r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy, Options: Options{Logger: zap.New(core)}})
				time.Sleep(time.Minute) // synthetic time for several attempts
				shot := r.Snapshot()
				if !strings.Contains(shot.Reason, "öö") || len(shot.Reason) > 2*protocol.MaxReason || !utf8.ValidString(shot.Reason) || len(shot.Advice) > diagnose.MaxText {
					t.Errorf("%s: %d bytes of reason, %d of advice", shot.State, len(shot.Reason), len(shot.Advice))
				}
				if shot.State == Down {
					_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
					if data := upstreamtest.DataOf(t, err); len(data) > 2*protocol.MaxReason {
						t.Errorf("the error data has %d bytes", len(data))
					}
				}
				if n := logs.Len(); n != 1 {
					t.Errorf("%d log lines, want 1", n)
				}
				for _, line := range logs.All() {
					for _, f := range line.Context {
						if len(f.String) > diagnose.MaxText {
							t.Errorf("log field with %d bytes: %s", len(f.String), f.Key)
						}
					}
				}
			})
		})
	}
}

// The log reports dropped tools once, for any number of tools and lists.
func TestDroppedToolsAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	tn := catalogRefresher{c: New(Options{Name: "files", Logger: zap.New(core)})}
	list := func(n int) []wire.Raw {
		tools := []wire.Raw{wire.Raw(`{"name":"good","inputSchema":{"type":"object"}}`)}
		for i := range n {
			tools = append(tools, fmt.Appendf(nil, `{"name":"bad%d","inputSchema":{"type":"object","properties":{"p":{"type":"object","x-mcp-header":"P"}}}}`, i))
		}
		return tools
	}
	for _, n := range []int{1000, 1000, 0, 2} {
		if got := tn.usable(list(n)); len(got) != 1 {
			t.Fatalf("%d tools are left", len(got))
		}
	}
	var lines []string
	for _, line := range logs.All() {
		lines = append(lines, fmt.Sprint(line.ContextMap()["tools"], " ", line.ContextMap()["first"]))
	}
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "1000 bad0: ") || !strings.HasPrefix(lines[1], "2 bad0: ") {
		t.Errorf("log lines: %q", lines)
	}
}

func page(n, of, size int) string {
	var b strings.Builder
	b.WriteString(`{"tools":[`)
	for i := range size {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"t%d","inputSchema":{"type":"object"}}`, n*size+i)
	}
	b.WriteString(`]`)
	if n+1 < of {
		fmt.Fprintf(&b, `,"nextCursor":"p%d"`, n+1)
	}
	return b.String() + `}`
}

// grantedLater is a conversation whose requests lack a grant until an hour has passed, or have one that the server does not accept.
type grantedLater struct {
	protocol.Conn
	at      time.Time
	another bool
}

func (c *grantedLater) granted() bool { return !time.Now().Before(c.at) }

func (c *grantedLater) Traits() protocol.Traits  { return protocol.Traits{} }
func (c *grantedLater) Probe(protocol.Suspicion) {}

func (c *grantedLater) Call(_ context.Context, cl *call.Call) (call.Result, error) {
	switch {
	case c.granted():
	case c.another:
		return call.Result{}, &protocol.CallError{Reason: "HTTP 500"}
	default:
		return call.Result{}, &protocol.CallError{Reason: "no grant", NotSent: true, Unauthenticated: true, Passed: c.granted}
	}
	return call.Result{Raw: wire.Raw(upstreamtest.TwoTools)}, nil
}

// A list that fails for want of a grant is gathered as soon as the grant is there, and one that fails for another reason as soon as
// there is another grant.
func TestFailedListWaitsForItsCause(t *testing.T) {
	t.Run("a grant", func(t *testing.T) { testFailedListWaits(t, false) })
	t.Run("another grant", func(t *testing.T) { testFailedListWaits(t, true) })
}

func testFailedListWaits(t *testing.T, another bool) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		conn := &grantedLater{at: time.Now().Add(time.Hour), another: another}
		o := Options{Limits: Limits{RefreshMin: time.Hour, Timeout: time.Minute}}
		if another {
			o.Start.NewCredentials = conn.granted
		}
		c := setup{Options: o}.connector()
		over := make(chan error)
		go func() {
			over <- c.refreshCatalog(ctx, conn, protocol.Hello{Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"tools":{}}`)}, false)
		}()
		time.Sleep(time.Until(conn.at) - time.Nanosecond)
		if s := c.Snapshot(); s.State != Degraded {
			t.Errorf("before: %s", s.State)
		}
		time.Sleep(2 * passingCheck)
		synctest.Wait()
		if s := c.Snapshot(); s.State != Ready || len(s.Catalog.Tools) != 2 {
			t.Errorf("after the grant: %s, %q", s.State, s.Reason)
		}
		end()
		<-over
	})
}

// A list that fails keeps its pauses while another list changes all the time and calls are answered.
func TestFailedListBesideOneThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := atomic.Int64{}
		s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			switch m.Method {
			case wire.MethodInitialize:
				l.Result(m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{"listChanged":true}}}`)
			case wire.MethodToolsList:
				tools.Add(1)
				l.Refuse(m, -32000, "no")
			case wire.MethodPromptsList:
				l.Result(m, `{"prompts":[]}`)
			case wire.MethodToolsCall:
				l.Result(m, `{"content":[]}`)
			}
		}}
		r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
		const pauses = 10 * 60 / 30
		for _, calls := range []bool{false, true} {
			time.Sleep(10 * time.Minute)
			before := tools.Load()
			for range 600 {
				s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
				if calls {
					<-r.doing(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
				}
				time.Sleep(time.Second)
			}
			if n := tools.Load() - before; n < pauses-1 || n > 2*pauses+2 {
				t.Errorf("%d requests for the list in 10 minutes, calls %v", n, calls)
			}
		}
	})
}
