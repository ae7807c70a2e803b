package requestid

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestValid(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "7f3c2a1e-9d5b-4c8f-8e2d-1a2b3c4d5e6f": true, "A.b_c~d+e-1": true, strings.Repeat("x", 128): true, New(): true, Part(New(), 12): true,
		"": false, strings.Repeat("x", 129): false, "a b": false, "a\tb": false, "a\nb": false, "ä": false, "a\x00": false, "a\x7f": false,
		"-rf": false, ".a": false, "`id`": false, "$(id)": false, "a;b": false, "a'b": false, `a"b`: false, "a/b": false, "a,b": false, "\x1b[31m": false,
	} {
		if Valid(id) != want {
			t.Errorf("Valid(%q) is %v", id, !want)
		}
	}
}

func TestSet(t *testing.T) {
	for name, tt := range map[string]struct {
		sent  []string
		taken bool
	}{
		"none": {nil, false}, "valid": {[]string{"abc-1"}, true}, "invalid": {[]string{"a b"}, false}, "two": {[]string{"a", "b"}, false}, "empty": {[]string{""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if tt.sent != nil {
				r.Header[Header] = tt.sent
			}
			w := httptest.NewRecorder()
			Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if id := Of(w); id != Set(w, r) {
					t.Errorf("the id changes from %q", id)
				}
			})).ServeHTTP(w, r)
			got := w.Header()[Header]
			if len(got) != 1 || !Valid(got[0]) || tt.taken != (tt.sent != nil && got[0] == tt.sent[0]) {
				t.Errorf("the response has %q", got)
			}
		})
	}
	if id := Of(httptest.NewRecorder()); id != "" {
		t.Errorf("a response without an id has %q", id)
	}
}

func TestIsMade(t *testing.T) {
	id := New()
	if !IsMade(id) || IsMade(id[1:]) || IsMade("i"+id[1:]) || IsMade("") {
		t.Errorf("the form of %q is not recognised", id)
	}
}

func TestIDsDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for range 10000 {
		id := New()
		if len(id) != madeLen || seen[id] {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
	}
}

// An id costs one allocation with its header.
func TestAllocations(t *testing.T) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	if n := testing.AllocsPerRun(100, func() {
		delete(w.Header(), Header)
		Set(w, r)
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSet(b *testing.B) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		delete(w.Header(), Header)
		Set(w, r)
	}
}
