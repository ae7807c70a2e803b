package stream

import (
	"strings"
	"testing"
)

// An id that is taken apart is one that the gateway makes, and no other text stands for the same event.
func FuzzEventID(f *testing.F) {
	for _, id := range []string{"", "-", "s-1", "s-01", "s--1", "s-1-2", "-1", "s-9223372036854775808", "s-+1"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		name, number, ok := parseEventID(id)
		if !ok {
			return
		}
		if made := (&recording{stream: name}).eventID(number); made != id {
			t.Errorf("%q is read as event %d of %q, which has the id %q", id, number, name, made)
		}
		if strings.Contains(name, "-") {
			t.Errorf("%q is read as an event of %q", id, name)
		}
	})
}
