package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/line"
	"mcpgateway/internal/wire"
)

// eras is an EraMemory.
type eras map[string]wire.Era

func (m eras) Era(key string) wire.Era           { return m[key] }
func (m eras) Remember(key string, era wire.Era) { m[key] = era }

func TestEra(t *testing.T) {
	const dualHello = `{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}`
	opening := []string{"initialize", "notifications/initialized", "tools/list"}
	refused := []string{"initialize", "server/discover", "subscriptions/listen", "tools/list"}
	listening := []string{"server/discover", "subscriptions/listen", "tools/list"}
	// dying ends each process that gets initialize, and else is modern.
	dying := func(l *fakeLife, m wire.Message) {
		if m.Method == wire.MethodInitialize {
			l.quit()
			return
		}
		modern(nil)(l, m)
	}
	// both answers whatever comes first, in its era, and refuses the other era then.
	both := func(l *fakeLife, m wire.Message) {
		switch l.methods()[0] {
		case wire.MethodDiscover:
			modern(nil)(l, m)
		default:
			legacy(nil)(l, m)
		}
	}

	for _, tt := range []struct {
		name       string
		era        wire.Era
		remembered wire.Era
		handle     func(l *fakeLife, m wire.Message)
		want       [][]string // methods that each life got
		revision   wire.Revision
		keeps      wire.Era
		reason     string // of the failure; contained
	}{
		{
			name: "legacy", handle: legacy(nil),
			want: [][]string{opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "both eras, of which server/discover lists the modern one alone", handle: both,
			want: [][]string{opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "modern", handle: modern(nil),
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "modern, and initialize is an unknown method",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.refuse(m, wire.CodeMethodNotFound, "method not found")
					return
				}
				modern(nil)(l, m)
			},
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "modern, and initialize is an invalid request",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.refuse(m, wire.CodeInvalidRequest, "_meta is missing")
					return
				}
				modern(nil)(l, m)
			},
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "modern, and initialize names an unsupported revision",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}}`, m.ID)
					return
				}
				modern(nil)(l, m)
			},
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "initialize is answered with a modern revision",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.result(m, `{"protocolVersion":"2026-07-28","capabilities":{}}`)
					return
				}
				modern(nil)(l, m)
			},
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "modern, and a new process is needed after initialize",
			handle: func(l *fakeLife, m wire.Message) {
				if l.n == 1 {
					l.refuse(m, wire.CodeMethodNotFound, "method not found")
					return
				}
				modern(nil)(l, m)
			},
			want: [][]string{{"initialize", "server/discover"}, listening}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "initialize ends each process", handle: dying,
			want:     [][]string{{"initialize"}, {"server/discover"}, {"initialize"}, listening},
			revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "initialize ends each process of a legacy server",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.quit()
					return
				}
				legacy(nil)(l, m)
			},
			want: [][]string{{"initialize"}, {"server/discover"}}, keeps: wire.EraUnknown, reason: "the connection to the server was lost",
		},
		{
			name: "one process of a server of both eras ends by chance",
			handle: func(l *fakeLife, m wire.Message) {
				if l.n == 1 {
					l.quit()
					return
				}
				both(l, m)
			},
			want: [][]string{{"initialize"}, {"server/discover"}, opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "an error that may pass does not make a server modern",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.refuse(m, wire.CodeInternal, "the database is away")
					return
				}
				modern(nil)(l, m)
			},
			want: [][]string{{"initialize"}}, keeps: wire.EraUnknown, reason: "the server refused initialize",
		},
		{
			name: "remembered modern", remembered: wire.EraModern, handle: modern(nil),
			want: [][]string{listening}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "remembered modern, and lists a legacy revision now", remembered: wire.EraModern,
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodDiscover {
					l.result(m, dualHello)
					return
				}
				legacy(nil)(l, m)
			},
			want: [][]string{{"server/discover"}, opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "remembered modern, and legacy now", remembered: wire.EraModern, handle: legacy(nil),
			want: [][]string{{"server/discover"}, opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "remembered legacy, and modern now", remembered: wire.EraLegacy, handle: modern(nil),
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "configured legacy", era: wire.EraLegacy, handle: modern(nil),
			want: [][]string{{"initialize"}}, keeps: wire.EraUnknown, reason: "the server refused initialize",
		},
		{
			name: "configured modern does not fall back", era: wire.EraModern, handle: legacy(nil),
			want: [][]string{{"server/discover"}}, reason: "configured with era: modern",
		},
		{
			name: "configured modern takes the modern of both", era: wire.EraModern,
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodDiscover {
					l.result(m, dualHello)
				}
			},
			want: [][]string{{"server/discover"}}, revision: wire.Rev20260728,
		},
		{
			name: "a slow legacy server",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					time.Sleep(20 * time.Second) // of the bubble's time
				}
				both(l, m)
			},
			want: [][]string{opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "revisions that nobody here speaks",
			handle: func(l *fakeLife, m wire.Message) {
				l.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2031-01-01"]}}}`, m.ID)
			},
			want:   [][]string{{"initialize"}},
			reason: `the server speaks the revisions ["2031-01-01"]; the gateway speaks ["2026-07-28" "2025-11-25"`,
		},
		{
			name: "initialize is answered with a revision that nobody here speaks", era: wire.EraLegacy,
			handle: func(l *fakeLife, m wire.Message) {
				l.result(m, `{"protocolVersion":"2031-01-01","capabilities":{}}`)
			},
			want:   [][]string{{"initialize"}},
			reason: `the server answered initialize with revision "2031-01-01"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{handle: tt.handle}
				mem := eras{"k": tt.remembered}
				r := start(t, Options{Server: Server{Pipe: s.pipe, Era: tt.era, Memory: mem, EraKey: "k"}})
				shot := r.watch.wait(t, func(s connector.Snapshot) bool { return s.Settled })
				if tt.reason != "" {
					if shot.State != connector.Down || !strings.Contains(shot.Reason, tt.reason) {
						t.Errorf("state %s, reason %q, want down, %q", shot.State, shot.Reason, tt.reason)
					}
				} else if shot.State != connector.Ready || shot.Revision != tt.revision {
					t.Errorf("state %s (%s), revision %q, want ready, %q", shot.State, shot.Reason, shot.Revision, tt.revision)
				}
				for i, want := range tt.want {
					if tt.revision == wire.Rev20260728 && tt.era == wire.EraModern {
						want = want[:1]
					}
					if got := s.life(i + 1).methods(); !slices.Equal(got, want) {
						t.Errorf("life %d got %q, want %q", i+1, got, want)
					}
				}
				if s.starts() != len(tt.want) {
					t.Errorf("%d starts, want %d", s.starts(), len(tt.want))
				}
				if tt.era == wire.EraUnknown && mem["k"] != tt.keeps {
					t.Errorf("remembered %s, want %s", mem["k"], tt.keeps)
				}
			})
		})
	}
}

func TestInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{handle: legacy(nil)}
		r := start(t, Options{Server: Server{Pipe: s.pipe, Era: wire.EraLegacy, Roots: []protocol.Root{{URI: "file:///data", Name: "data"}}}})
		shot := r.watch.wait(t, isReady)
		got := s.life(1).wait(t, method(wire.MethodInitialize))
		want := `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}},"clientInfo":{"name":"gw","version":"7"}}`
		if string(got.Params) != want {
			t.Errorf("initialize has %s, want %s", got.Params, want)
		}
		if shot.Instructions != "be kind" || string(shot.Info) != `{"name":"fake","version":"1"}` || len(shot.Catalog.Tools) != 2 {
			t.Errorf("snapshot %+v", shot)
		}
	})
}

// A server that ends at its start, whatever it is sent, is started twice in the
// first attempt and once in each after it; once it says something, its era is found
// out as that of any other.
func TestDyingAtStart(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(l *fakeLife, m wire.Message)
		dead int      // so many lives end at their start
		want []string // the first message of each life
		era  wire.Era
	}{
		"then legacy":   {legacy(nil), 3, []string{"initialize", "server/discover", "initialize", "server/discover", "initialize"}, wire.EraLegacy},
		"legacy, later": {legacy(nil), 4, []string{"initialize", "server/discover", "initialize", "server/discover", "initialize"}, wire.EraLegacy},
		"then modern":   {modern(nil), 3, []string{"initialize", "server/discover", "initialize", "server/discover", "initialize"}, wire.EraModern},
		"modern, later": {modern(nil), 4, []string{"initialize", "server/discover", "initialize", "server/discover", "initialize"}, wire.EraModern},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{handle: func(l *fakeLife, m wire.Message) {
					if l.n <= tc.dead {
						l.quit()
						return
					}
					tc.then(l, m)
				}}
				mem := eras{}
				r := start(t, Options{Server: Server{Pipe: s.pipe, Memory: mem, EraKey: "k"}})
				r.watch.wait(t, isReady)
				var got []string
				for i := range s.starts() {
					got = append(got, s.life(i + 1).methods()[0])
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("the lives began with %q, want %q", got, tc.want)
				}
				for _, shot := range r.watch.all() {
					if strings.Contains(shot.Reason, "initialize") {
						t.Errorf("the attempt in which it is back fails: %s", shot.Reason)
					}
				}
				if mem["k"] != tc.era {
					t.Errorf("remembered %s, want %s", mem["k"], tc.era)
				}
			})
		})
	}
}

// A program that cannot be started is not tried twice in one attempt.
func TestNotStartedOnceForEachAttempt(t *testing.T) {
	opens := 0
	d := line.NewDialer(Options{}.withDefaults().conversation(), func(context.Context) (*line.Link, error) {
		opens++
		return nil, &protocol.CallError{Reason: "cannot start the server's program", Cause: &process.StartError{Err: errors.New("not there")}}
	})
	for attempt := range 3 {
		if _, _, err := d.Dial(t.Context(), nil); err == nil || opens != attempt+1 {
			t.Errorf("attempt %d: %v after %d starts", attempt+1, err, opens)
		}
	}
}
