package bridge

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

var (
	ann = &call.Principal{Subject: "ann", AuthMethod: "jwt"}
	bob = &call.Principal{Subject: "bob", AuthMethod: "jwt"}
	now = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
)

func toolCall(who *call.Principal, params string) *call.Call {
	return &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(params), Principal: who}
}

func key(b byte) []byte { return bytes.Repeat([]byte{b}, KeySize) }

func TestSealAndOpen(t *testing.T) {
	s := NewSealer()
	b := BindingOf(toolCall(ann, `{"name":"t"}`))
	for _, want := range []State{
		{Kind: UpstreamState, Recipient: "files", Text: "état \x00 d'âme", Expires: now.Add(time.Hour)},
		{Kind: Resend, Recipient: "files", Expires: now.Add(time.Second)},
		{Kind: Parked, Recipient: "replica", Text: "call", Round: 4000000000, Expires: now.Add(time.Hour)},
		{Kind: Parked, Recipient: "replica", Text: "call", Request: "first", Round: 1, Trace: "00-1-2-01", Expires: now.Add(time.Hour)},
		{Kind: UpstreamState, Text: strings.Repeat("x", 1<<20), Expires: now.Add(time.Hour)},
	} {
		sealed := s.Seal(want, b)
		got, err := s.Open(sealed, b, now)
		got.Expires = got.Expires.UTC()
		if err != nil || got != want {
			t.Errorf("got %.100v, %v; want %.100v", got, err, want)
		}
		if KindOf(sealed) != want.Kind {
			t.Errorf("kind is %q", KindOf(sealed))
		}
		if strings.Contains(sealed, want.Text[:min(len(want.Text), 16)]) && want.Text != "" {
			t.Error("the text can be read")
		}
		if sealed == s.Seal(want, b) {
			t.Error("two states of the same are alike")
		}
	}
}

// A state that an older version has sealed opens: clients hold states during an upgrade.
func TestStateOfAnOlderVersion(t *testing.T) {
	const sealed = "AnDfKL1G8DzTt_oYzGrJFL_-GHsfS-Q4X2gm-Z3WGiIkHGOlhbo-YPAmD3QmwQ3hMBM_zoN4xBpn-zRtmPZ1Y5cjYjPtEv_aAti20GN0ptatVvl5vE7yUX2vv4DVLWzOUQCSc2lZFx7hSk-KtaAMixMOYUP-2sVjeGzRWTxfTiwf3EgCitjMPtA"
	want := State{Kind: Parked, Recipient: "replica", Text: "call", Round: 7, Expires: now.Add(time.Hour)}
	got, err := NewSealer(key(1)).Open(sealed, BindingOf(toolCall(ann, `{"name":"t"}`)), now)
	got.Expires = got.Expires.UTC()
	if err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestKeysRotate(t *testing.T) {
	b := BindingOf(toolCall(ann, `{}`))
	old := NewSealer(key(1)).Seal(State{Kind: UpstreamState, Expires: now.Add(time.Hour)}, b)
	both := NewSealer(key(2), key(1))
	if _, err := both.Open(old, b, now); err != nil {
		t.Errorf("a state of the older key: %v", err)
	}
	fresh := both.Seal(State{Kind: UpstreamState, Expires: now.Add(time.Hour)}, b)
	if _, err := NewSealer(key(2)).Open(fresh, b, now); err != nil {
		t.Errorf("the first key does not seal: %v", err)
	}
	if _, err := NewSealer(key(1)).Open(fresh, b, now); err != ErrUnknownKey {
		t.Errorf("error is %v, want %v", err, ErrUnknownKey)
	}
}

func TestRefusedStates(t *testing.T) {
	s := NewSealer(key(1))
	c := toolCall(ann, `{"name":"t","arguments":{"n":1}}`)
	b := BindingOf(c)
	sealed := s.Seal(State{Kind: UpstreamState, Recipient: "files", Text: "x", Expires: now.Add(time.Minute)}, b)
	method := *c
	method.Method = wire.MethodPromptsGet
	for _, tc := range []struct {
		name   string
		sealed string
		b      Binding
		at     time.Time
		want   error
	}{
		{"good", sealed, b, now.Add(time.Minute - 1), nil},
		{"expired", sealed, b, now.Add(time.Minute), ErrExpired},
		{"another principal", sealed, BindingOf(toolCall(bob, string(c.Params))), now, ErrPrincipal},
		{"another profile", sealed, BindingOf(toolCall(ann.In("coding"), string(c.Params))), now, ErrPrincipal},
		{"another method", sealed, BindingOf(&method), now, ErrRequest},
		{"another name", sealed, BindingOf(toolCall(ann, `{"name":"u","arguments":{"n":1}}`)), now, ErrRequest},
		{"other arguments", sealed, BindingOf(toolCall(ann, `{"name":"t","arguments":{"n":2}}`)), now, ErrRequest},
		{"empty", "", b, now, ErrMalformed},
		{"the upstream's own", "AEAD-protected blob", b, now, ErrMalformed},
		{"cut", sealed[:36], b, now, ErrMalformed},
		{"cut at the end", sealed[:64], b, now, ErrTampered},
		{"longer", sealed[:64] + sealed[64:68] + sealed[64:], b, now, ErrTampered},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := s.Open(tc.sealed, tc.b, tc.at); !errors.Is(err, tc.want) {
				t.Errorf("error is %v, want %v", err, tc.want)
			}
		})
	}
}

// A state with any changed bit is refused.
func TestEveryBitIsAuthenticated(t *testing.T) {
	s := NewSealer(key(1))
	b := BindingOf(toolCall(ann, `{}`))
	raw, err := base64.RawURLEncoding.DecodeString(s.Seal(State{Kind: UpstreamState, Recipient: "h", Text: "x", Expires: now.Add(time.Minute)}, b))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(raw) {
		raw[i/8] ^= 1 << (i % 8)
		if st, err := s.Open(base64.RawURLEncoding.EncodeToString(raw), b, now); err == nil {
			t.Fatalf("with bit %d changed it opens as %+v", i, st)
		}
		raw[i/8] ^= 1 << (i % 8)
	}
}

func TestBinding(t *testing.T) {
	const base = `{"name":"t","arguments":{"a":[1,2.50,"x"],"b":{"c":null,"d":true}}}`
	for _, tc := range []struct {
		name, params string
		same         bool
	}{
		{"order, space and spelling", "{ \"arguments\" : {\"b\":{\"d\":true,\"c\":null},\"a\":[1.0,25e-1,\"\\u0078\"]},\"n\\u0061me\":\"t\"}", true},
		{"members of a retry", `{"name":"t","arguments":{"a":[1,2.50,"x"],"b":{"c":null,"d":true}},"_meta":{"progressToken":1},"inputResponses":{"k":{}},"requestState":"s"}`, true},
		{"names of retry members in the arguments", `{"name":"t","arguments":{"a":[1,2.50,"x"],"b":{"c":null,"d":true},"requestState":"s"}}`, false},
		{"another member", `{"name":"t","arguments":{"a":[1,2.50,"x"],"b":{"c":null,"d":true}},"task":{}}`, false},
		{"another order of elements", `{"name":"t","arguments":{"a":[2.50,1,"x"],"b":{"c":null,"d":true}}}`, false},
		{"a string for a number", `{"name":"t","arguments":{"a":["1",2.50,"x"],"b":{"c":null,"d":true}}}`, false},
		{"null for absent", `{"name":"t","arguments":{"a":[1,2.50,"x"],"b":{"d":true}}}`, false},
		{"another key", `{"name":"t","arguments":{"aa":[1,2.50,"x"],"b":{"c":null,"d":true}}}`, false},
		{"a key in another object", `{"name":"t","arguments":{"a":[1,2.50,"x"],"b":{"d":true}},"c":null}`, false},
		{"false for true", `{"name":"t","arguments":{"a":[1,2.50,"x"],"b":{"c":null,"d":false}}}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := BindingOf(toolCall(ann, tc.params)) == BindingOf(toolCall(ann, base))
			if got != tc.same {
				t.Errorf("same is %v, want %v", got, tc.same)
			}
		})
	}
}

func TestBindingOfValues(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1.0`, true}, {`1`, `10e-1`, true}, {`100`, `1E+2`, true}, {`0.1`, `1e-1`, true}, {`0`, `0.00e5`, true}, {`-1`, `-1.0`, true},
		{`9007199254740993`, `9007199254740992`, false}, {`0.1`, `0.10000000000000001`, false}, {`1`, `-1`, false},
		{`0`, `-0`, false}, {`1e400`, `1e401`, false}, {`1e99999999999`, `1e99999999998`, false}, {`1`, `10`, false},
		{`"\ud83d"`, `"\ud83e"`, false}, {`"\ud83d"`, `"�"`, false}, {`"é"`, `"\u00e9"`, true}, {`"\/"`, `"/"`, true},
		{`["a","b"]`, `["ab"]`, false}, {`[[],[]]`, `[[[]]]`, false}, {`{}`, `[]`, false}, {`null`, `"null"`, false},
	} {
		bind := func(v string) Binding { return BindingOf(toolCall(ann, `{"name":"t","arguments":{"v":`+v+`}}`)) }
		if got := bind(tc.a) == bind(tc.b); got != tc.same {
			t.Errorf("%s and %s: same is %v, want %v", tc.a, tc.b, got, tc.same)
		}
	}
}

// A state of a traced call has the call's span, and one of another call looks as it did before.
func TestStatesOfTracedCalls(t *testing.T) {
	s, b, now := NewSealer(), Binding{}, time.Unix(1_800_000_000, 0)
	plain := State{Kind: UpstreamState, Recipient: "files", Text: "t", Token: "o", Expires: now.Add(time.Hour)}
	traced := plain
	traced.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, want := range []State{plain, traced} {
		got, err := s.Open(s.Seal(want, b), b, now)
		if err != nil || got.Trace != want.Trace || got.Recipient != "files" || got.Text != "t" || got.Token != "o" {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
