package bridge

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"mcpgateway/internal/wire"
)

// No text that differs from a state of the gateway opens, and the error is one that callers know.
func FuzzOpen(f *testing.F) {
	s := NewSealer(key(1), key(2))
	b := BindingOf(toolCall(ann, `{"name":"t"}`))
	f.Add("", uint16(0), byte(0))
	f.Add(s.Seal(State{Kind: Parked, Recipient: "replica", Text: "call", Expires: now.Add(time.Hour)}, b), uint16(7), byte(1))
	f.Add(s.SealTask(TaskRef{Upstream: "files", Native: "1"}, ann), uint16(60), byte(255))
	f.Fuzz(func(t *testing.T, text string, at uint16, change byte) {
		for _, sealed := range []string{text, changed(t, s, b, text, at, change)} {
			st, err := s.Open(sealed, b, now)
			switch {
			case sealed == "", err == nil && st.Expires.After(now):
			case errors.Is(err, ErrMalformed), errors.Is(err, ErrUnknownKey), errors.Is(err, ErrTampered), errors.Is(err, ErrExpired), errors.Is(err, ErrPrincipal), errors.Is(err, ErrRequest):
			default:
				t.Errorf("%q opens as %+v, error %v", sealed, st, err)
			}
			if ref, err := s.OpenTask(sealed, bob); err == nil {
				t.Errorf("%q opens as the task %+v of another principal", sealed, ref)
			}
		}
		if sealed := changed(t, s, b, text, at, change); change != 0 {
			if st, err := s.Open(sealed, b, now); err == nil {
				t.Errorf("the changed state %q opens as %+v", sealed, st)
			}
		}
	})
}

// changed returns a state with the text, of which one byte is changed. The state is not changed if
// change is zero.
func changed(t *testing.T, s *Sealer, b Binding, text string, at uint16, change byte) string {
	raw, err := base64.RawURLEncoding.DecodeString(s.Seal(State{Kind: UpstreamState, Text: text, Expires: now.Add(time.Hour)}, b))
	if err != nil {
		t.Fatal(err)
	}
	raw[int(at)%len(raw)] ^= change
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Two calls with the same binding have the same arguments for every reader.
func FuzzBinding(f *testing.F) {
	f.Add([]byte(`{"name":"t","arguments":{"n":1}}`), []byte(`{"arguments":{"n":1.0},"name":"t","requestState":"x"}`))
	f.Add([]byte(`{"name":"t","arguments":{"a":"\u0041"}}`), []byte(`{"name":"t","arguments":{"a":"A"}}`))
	f.Add([]byte(`{"a":["",{"b":1e1}]}`), []byte(`{"a":["",{"b":10}],"_meta":{"progressToken":1}}`))
	f.Fuzz(func(t *testing.T, one, other []byte) {
		for _, params := range [][]byte{one, other} {
			if wire.Check(params, wire.Limits{Depth: 100}, wire.Strict) != nil || wire.ValueOf(params).Kind() != '{' {
				return
			}
		}
		if BindingOf(toolCall(ann, string(one))) != BindingOf(toolCall(ann, string(other))) {
			return
		}
		for m := range wire.ValueOf(one).Members() {
			switch name := m.Key.Str(); name {
			case "_meta", "inputResponses", "requestState":
			default:
				if a, b := m.Value, wire.ValueOf(other).Get(name); a.Kind() != b.Kind() || a.Str() != b.Str() {
					t.Errorf("%s and %s have one binding, and differ in %s", one, other, name)
				}
			}
		}
	})
}
