package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/wire"
)

// eras is an EraMemory.
type eras map[string]wire.Era

func (m eras) Era(key string) wire.Era           { return m[key] }
func (m eras) Remember(key string, era wire.Era) { m[key] = era }

func TestEra(t *testing.T) {
	const dualHello = `{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}`
	opening := []string{"initialize", "notifications/initialized", "tools/list"}
	probed := append([]string{"server/discover"}, opening...)
	listening := []string{"server/discover", "subscriptions/listen", "tools/list"}

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
			name: "legacy answers with an error", handle: legacy(nil),
			want: [][]string{probed}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "modern", handle: modern(nil),
			want: [][]string{listening}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "remembered legacy is not probed", remembered: wire.EraLegacy, handle: legacy(nil),
			want: [][]string{opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "configured legacy is not probed", era: wire.EraLegacy, handle: modern(nil),
			want: [][]string{{"initialize"}}, keeps: wire.EraUnknown, reason: "the server refused initialize",
		},
		{
			name: "configured modern does not fall back", era: wire.EraModern, handle: legacy(nil),
			want: [][]string{{"server/discover"}}, reason: "configured as a modern one",
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
			name: "a server of both eras is started anew as a legacy one",
			handle: func(l *fakeLife, m wire.Message) {
				switch {
				case m.Method == wire.MethodDiscover:
					l.result(m, dualHello)
				case l.n == 1:
					l.refuse(m, 0, `duplicate "initialize" received`)
				default:
					legacy(nil)(l, m)
				}
			},
			want: [][]string{{"server/discover"}, opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "a server that refuses initialize after the probe is started anew",
			handle: func(l *fakeLife, m wire.Message) {
				if l.n == 1 {
					l.refuse(m, 0, "out of order")
					return
				}
				legacy(nil)(l, m)
			},
			want: [][]string{{"server/discover", "initialize"}, opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "exit under the probe",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodDiscover {
					l.quit()
					return
				}
				legacy(nil)(l, m)
			},
			want: [][]string{{"server/discover"}, opening}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "silence means legacy",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method != wire.MethodDiscover {
					legacy(nil)(l, m)
				}
			},
			want: [][]string{probed}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "a late answer to the probe wins",
			handle: func(l *fakeLife, m wire.Message) {
				switch m.Method {
				case wire.MethodDiscover:
				case wire.MethodInitialize:
					l.line(`{"jsonrpc":"2.0","id":1,"result":%s}`, modernHello)
					l.refuse(m, wire.CodeInvalidParams, "supported: 2026-07-28")
				default:
					modern(nil)(l, m)
				}
			},
			want:     [][]string{{"server/discover", "initialize", "subscriptions/listen", "tools/list"}},
			revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "a late answer wins after initialize was refused",
			handle: func(l *fakeLife, m wire.Message) {
				switch m.Method {
				case wire.MethodDiscover:
				case wire.MethodInitialize:
					l.refuse(m, wire.CodeInvalidParams, "supported: 2026-07-28")
					l.line(`{"jsonrpc":"2.0","id":1,"result":%s}`, modernHello)
				default:
					modern(nil)(l, m)
				}
			},
			want:     [][]string{{"server/discover", "initialize", "subscriptions/listen", "tools/list"}},
			revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "a remembered modern server may be slow", remembered: wire.EraModern,
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodDiscover {
					time.Sleep(20 * time.Second) // of the bubble's time
				}
				modern(nil)(l, m)
			},
			want: [][]string{listening}, revision: wire.Rev20260728, keeps: wire.EraModern,
		},
		{
			name: "the modern error for the revision lists legacy ones",
			handle: func(l *fakeLife, m wire.Message) {
				if m.Method == wire.MethodDiscover {
					l.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2025-11-25"]}}}`, m.ID)
					return
				}
				legacy(nil)(l, m)
			},
			want: [][]string{probed}, revision: wire.Rev20251125, keeps: wire.EraLegacy,
		},
		{
			name: "revisions that nobody here speaks",
			handle: func(l *fakeLife, m wire.Message) {
				l.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2031-01-01"]}}}`, m.ID)
			},
			want:   [][]string{{"server/discover"}},
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
				r := start(t, Options{Pipe: s.pipe, Era: tt.era, Memory: mem, EraKey: "k"})
				shot := r.watch.wait(t, func(s Snapshot) bool { return s.Settled })
				if tt.reason != "" {
					if shot.State != Down || !strings.Contains(shot.Reason, tt.reason) {
						t.Errorf("state %s, reason %q, want down, %q", shot.State, shot.Reason, tt.reason)
					}
				} else if shot.State != Ready || shot.Revision != tt.revision {
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
		r := start(t, Options{Pipe: s.pipe, Era: wire.EraLegacy, Roots: []Root{{URI: "file:///data", Name: "data"}}})
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
		want []string // the first message of each life
		era  wire.Era
	}{
		"then legacy": {legacy(nil), []string{"server/discover", "initialize", "initialize", "initialize"}, wire.EraLegacy},
		"then modern": {modern(nil), []string{"server/discover", "initialize", "initialize", "initialize", "server/discover"}, wire.EraModern},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{handle: func(l *fakeLife, m wire.Message) {
					if l.n <= 3 {
						l.quit()
						return
					}
					tc.then(l, m)
				}}
				mem := eras{}
				r := start(t, Options{Pipe: s.pipe, Memory: mem, EraKey: "k"})
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
	d := newLineDialer(Options{}.withDefaults(), func(context.Context) (*link, error) {
		opens++
		return nil, &fault{reason: "cannot start the server's program", cause: &notStarted{errors.New("not there")}}
	})
	for attempt := range 3 {
		if _, _, err := d.dial(t.Context(), nil); err == nil || opens != attempt+1 {
			t.Errorf("attempt %d: %v after %d starts", attempt+1, err, opens)
		}
	}
}
