package router

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestOneTimeTokens(t *testing.T) {
	m := newMemoryTokens()
	token := m.New(t.Context())
	for i, want := range []bool{true, false, false} {
		if ok, err := m.Redeem(t.Context(), token, time.Now().Add(time.Hour)); ok != want || err != nil {
			t.Errorf("use %d of the token: %v, %v", i+1, ok, err)
		}
	}
	if ok, _ := m.Redeem(t.Context(), newMemoryTokens().New(t.Context()), time.Now()); ok {
		t.Error("the token of another process was accepted")
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryTokens()
		for range maxTokens {
			if ok, err := m.Redeem(t.Context(), m.New(t.Context()), time.Now().Add(time.Minute)); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if _, err := m.Redeem(t.Context(), m.New(t.Context()), time.Now().Add(time.Minute)); err == nil {
			t.Error("more tokens than the limit were accepted")
		}
		time.Sleep(time.Minute + 1)
		if ok, err := m.Redeem(t.Context(), m.New(t.Context()), time.Now().Add(time.Minute)); !ok || err != nil || len(m.redeemed) != 1 {
			t.Errorf("%v, %v, %d expired tokens are kept", ok, err, len(m.redeemed)-1)
		}
	})
}
