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
	"mcpgateway/internal/upstream/upstreamtest"
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
	// dying is a modern server whose process ends after initialize.
	dying := func(l *upstreamtest.Instance, m wire.Message) {
		if m.Method == wire.MethodInitialize {
			l.Quit()
			return
		}
		upstreamtest.Modern(nil)(l, m)
	}
	// both answers the first request in its era and then refuses the other era.
	both := func(l *upstreamtest.Instance, m wire.Message) {
		switch l.Methods()[0] {
		case wire.MethodDiscover:
			upstreamtest.Modern(nil)(l, m)
		default:
			upstreamtest.Legacy(nil)(l, m)
		}
	}

	for _, tt := range []struct {
		name       string
		era        wire.Era
		remembered wire.Era
		handle     func(l *upstreamtest.Instance, m wire.Message)
		want       [][]string // methods that each instance received
		revision   wire.Revision
		keeps      wire.Era
		reason     string // part of the reason of the failure
	}{
		{
			name: "legacy", handle: upstreamtest.Legacy(nil),
			want: [][]string{opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "both eras, server/discover lists modern revisions only", handle: both,
			want: [][]string{opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "modern", handle: upstreamtest.Modern(nil),
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "modern, initialize is an unknown method",
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.Refuse(m, wire.CodeMethodNotFound, "method not found")
					return
				}
				upstreamtest.Modern(nil)(l, m)
			},
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "modern, initialize is an invalid request",
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.Refuse(m, wire.CodeInvalidRequest, "_meta is missing")
					return
				}
				upstreamtest.Modern(nil)(l, m)
			},
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "modern, initialize names an unsupported revision",
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}}`, m.ID)
					return
				}
				upstreamtest.Modern(nil)(l, m)
			},
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "initialize is answered with a modern revision",
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.Result(m, `{"protocolVersion":"2026-07-28","capabilities":{}}`)
					return
				}
				upstreamtest.Modern(nil)(l, m)
			},
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "modern, initialize ends the process",
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if l.N == 1 {
					l.Refuse(m, wire.CodeMethodNotFound, "method not found")
					return
				}
				upstreamtest.Modern(nil)(l, m)
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
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.Quit()
					return
				}
				upstreamtest.Legacy(nil)(l, m)
			},
			want: [][]string{{"initialize"}, {"server/discover"}}, keeps: wire.EraUnknown, reason: "the connection to the server was lost",
		},
		{
			name: "one process of a server of both eras ends at random",
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if l.N == 1 {
					l.Quit()
					return
				}
				both(l, m)
			},
			want: [][]string{{"initialize"}, {"server/discover"}, opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "a temporary error does not make a server modern",
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					l.Refuse(m, wire.CodeInternal, "the database is away")
					return
				}
				upstreamtest.Modern(nil)(l, m)
			},
			want: [][]string{{"initialize"}}, keeps: wire.EraUnknown, reason: "the server refused initialize",
		},
		{
			name: "remembered modern", remembered: wire.EraModern, handle: upstreamtest.Modern(nil),
			want: [][]string{listening}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "remembered modern, now lists a legacy revision", remembered: wire.EraModern,
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodDiscover {
					l.Result(m, dualHello)
					return
				}
				upstreamtest.Legacy(nil)(l, m)
			},
			want: [][]string{{"server/discover"}, opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "remembered modern, now legacy", remembered: wire.EraModern, handle: upstreamtest.Legacy(nil),
			want: [][]string{{"server/discover"}, opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "remembered legacy, now modern", remembered: wire.EraLegacy, handle: upstreamtest.Modern(nil),
			want: [][]string{refused}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "configured legacy", era: wire.EraLegacy, handle: upstreamtest.Modern(nil),
			want: [][]string{{"initialize"}}, keeps: wire.EraUnknown, reason: "the server refused initialize",
		},
		{
			name: "configured modern does not fall back", era: wire.EraModern, handle: upstreamtest.Legacy(nil),
			want: [][]string{{"server/discover"}}, reason: "configured with era: modern",
		},
		{
			name: "configured modern with a server of both eras", era: wire.EraModern,
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodDiscover {
					l.Result(m, dualHello)
				}
			},
			want: [][]string{{"server/discover"}}, revision: wire.Rev20260728,
		},
		{
			name: "a slow legacy server",
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodInitialize {
					time.Sleep(20 * time.Second) // synthetic time
				}
				both(l, m)
			},
			want: [][]string{opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "unsupported revisions",
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				l.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2031-01-01"]}}}`, m.ID)
			},
			want:   [][]string{{"initialize"}},
			reason: `the server speaks the revisions ["2031-01-01"]; the gateway speaks ["2026-07-28" "2025-11-25"`,
		},
		{
			name: "initialize is answered with an unsupported revision", era: wire.EraLegacy,
			handle: func(l *upstreamtest.Instance, m wire.Message) {
				l.Result(m, `{"protocolVersion":"2031-01-01","capabilities":{}}`)
			},
			want:   [][]string{{"initialize"}},
			reason: `the server answered initialize with revision "2031-01-01"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: tt.handle}
				mem := eras{"k": tt.remembered}
				r := start(t, Options{Server: Server{Pipe: s.Pipe, Era: tt.era, Memory: mem, EraKey: "k"}})
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
					if got := s.Instance(i + 1).Methods(); !slices.Equal(got, want) {
						t.Errorf("instance %d got %q, want %q", i+1, got, want)
					}
				}
				if s.Starts() != len(tt.want) {
					t.Errorf("%d starts, want %d", s.Starts(), len(tt.want))
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
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
		r := start(t, Options{Server: Server{Pipe: s.Pipe, Era: wire.EraLegacy, Roots: []protocol.Root{{URI: "file:///data", Name: "data"}}}})
		shot := r.watch.wait(t, isReady)
		got := s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodInitialize))
		want := `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}},"clientInfo":{"name":"gw","version":"7"}}`
		if string(got.Params) != want {
			t.Errorf("initialize has %s, want %s", got.Params, want)
		}
		if shot.Instructions != "be kind" || string(shot.Info) != `{"name":"fake","version":"1"}` || len(shot.Catalog.Tools) != 2 {
			t.Errorf("snapshot %+v", shot)
		}
	})
}

// A server that ends at its start is started twice in the first attempt and once in
// each later attempt. Once it answers, its era is detected as usual.
func TestServerThatEndsAtStart(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(l *upstreamtest.Instance, m wire.Message)
		dead int      // number of instances that end at their start
		want []string // first message of each instance
		era  wire.Era
	}{
		"then legacy":   {upstreamtest.Legacy(nil), 3, []string{"initialize", "server/discover", "initialize", "server/discover", "initialize"}, wire.EraLegacy},
		"legacy, later": {upstreamtest.Legacy(nil), 4, []string{"initialize", "server/discover", "initialize", "server/discover", "initialize"}, wire.EraLegacy},
		"then modern":   {upstreamtest.Modern(nil), 3, []string{"initialize", "server/discover", "initialize", "server/discover", "initialize"}, wire.EraModern},
		"modern, later": {upstreamtest.Modern(nil), 4, []string{"initialize", "server/discover", "initialize", "server/discover", "initialize"}, wire.EraModern},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
					if l.N <= tc.dead {
						l.Quit()
						return
					}
					tc.then(l, m)
				}}
				mem := eras{}
				r := start(t, Options{Server: Server{Pipe: s.Pipe, Memory: mem, EraKey: "k"}})
				r.watch.wait(t, isReady)
				var got []string
				for i := range s.Starts() {
					got = append(got, s.Instance(i + 1).Methods()[0])
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("first messages %q, want %q", got, tc.want)
				}
				for _, shot := range r.watch.all() {
					if strings.Contains(shot.Reason, "initialize") {
						t.Errorf("the attempt after the failures failed: %s", shot.Reason)
					}
				}
				if mem["k"] != tc.era {
					t.Errorf("remembered %s, want %s", mem["k"], tc.era)
				}
			})
		})
	}
}

// A program that cannot be started is tried once in each attempt.
func TestStartErrorOncePerAttempt(t *testing.T) {
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
