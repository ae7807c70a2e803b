package stream

import (
	"strings"
	"testing"
)

// An id that is taken apart is one that the gateway makes, and no other text stands for the same event.
func FuzzEventID(f *testing.F) {
	for _, id := range []string{"", "-", "s-1", "s-01", "s--1", "s-1-2", "-1", "s-9223372036854775808", "s-+1", "s-0", "s.r-1", "s.rc-1", ".c-1"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		p, err := ParseEventID(id)
		if err != nil {
			return
		}
		if made := p.String(); made != id {
			t.Errorf("%q is read as event %d of %q, which has the id %q", id, p.Number, p.Stream, made)
		}
		if strings.Contains(p.Stream, "-") || p.Number < 1 {
			t.Errorf("%q is read as event %d of %q", id, p.Number, p.Stream)
		}
	})
}
