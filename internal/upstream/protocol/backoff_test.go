package protocol

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	var b Backoff
	now := time.Unix(0, 0)
	for i, nominal := range []time.Duration{250, 500, 1000, 2000, 4000, 5000, 5000} {
		got := b.Next(now)
		if top := nominal * time.Millisecond; got > top || got < top/2 {
			t.Errorf("pause %d is %s, want within %s and %s", i+1, got, top/2, top)
		}
	}
	if got := b.Next(now.Add(time.Minute)); got < 15*time.Second || got > 30*time.Second {
		t.Errorf("after a minute the pause is %s", got)
	}
	b.Reset()
	if got := b.Next(now); got > 250*time.Millisecond {
		t.Errorf("after a success the pause is %s", got)
	}
}
