package script

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
)

// FuzzScript runs any source with small bounds. A run ends, with a result or a failure, and
// allocates little.
func FuzzScript(f *testing.F) {
	for _, tt := range hostile {
		if len(tt.source) < 1000 {
			f.Add(tt.source)
		}
	}
	f.Add("x = call('structured')\nprint([k for k in x], sep = '')\ndef f(*a, **k):\n  return {a: k}\nf(1, y = 2)")
	limits := Limits{Steps: 20_000, Calls: 5, Parallel: 2, Time: 5 * time.Second, Output: 1000}
	f.Fuzz(func(t *testing.T, source string) {
		p, err := Compile("script", source)
		if err != nil {
			if _, ok := errors.AsType[*Failure](err); !ok {
				t.Fatalf("compiling: %v", err)
			}
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := NewRun(Options{Host: &fakeHost{}, Limits: limits, Clock: realClock{}})
		r.memory = 1 << 20
		result, err := r.Do(t.Context(), p)
		runtime.ReadMemStats(&after)
		if failure, ok := errors.AsType[*Failure](err); err != nil && (!ok || failure.Message == "the interpreter failed") {
			t.Errorf("running: %v", err)
		}
		if len(result.Value) > limits.Output || len(result.Output) > limits.Output {
			t.Errorf("%d bytes of output and %d of the value", len(result.Output), len(result.Value))
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 40<<20 {
			t.Errorf("%d bytes were allocated", n)
		}
	})
}

// FuzzSameAsStarlark compares a run with one of the plain interpreter: what is rewritten to
// charge its cost has the same value.
func FuzzSameAsStarlark(f *testing.F) {
	for _, source := range []string{
		"[1, 2][::-1]", "x = {}\nx['a'] = 1\nx['a'] += 2\nx", "'%s %r %d' % (1, 'a', 3)", "[x for x in 'abc'.elems() if x != 'b']",
		"def f(a, b = 2, *c, **d):\n  return (a, b, c, d)\nf(1, 2, 3, e = 4)", "sorted([3, 1, 2], key = lambda x: -x)", "x = [1]\nx *= 3\nx += (4,)\nx",
		"a, (b, c) = 1, [2, 3]\n(c, b, a)", "{'a': 1} | {'b': 2}", "'a,b'.split(',')[0].upper()", "x = 5\nx //= 2\nx <<= 3\nx ^= 1\nx", "not (1 < 2) or 'a' in 'abc'",
		"set([1, 2]) & set([2])", "min([3, 1], key = lambda x: -x)", "[i for i in range(5)][1:-1:2]", "x = []\nfor i in range(3):\n  x.append(i)\nx", "1 if [] else -1",
		"'{} {a}'.format(1, a = [2])", "def f():\n  for i in range(3):\n    if i == 1: continue\n    return i\nf()", "x = [[1]]\nx[0][0] -= 3\nx", "1.5 // 2 + 7 % -3", "(lambda *a: a)(*[1, 2])",
		"'abc'[-1] + 'x' * 2", "dict(a = 1, **{'b': 2}).items()", "enumerate(['a'])", "b'ab'[0]", "'aXb'.partition('X')", "hash('a') == hash('a')", "[1] == [1.0]", "type(1 << 100)",
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		p, err := Compile("script", source)
		if err != nil {
			return
		}
		limits := Limits{Steps: 10_000, Calls: 1, Parallel: 1, Time: time.Minute, Output: 1 << 20}
		r := NewRun(Options{Host: &fakeHost{}, Limits: limits, Clock: realClock{}})
		var got starlark.Value
		_, ours := r.do(context.Background(), p, func(globals starlark.StringDict) (starlark.Value, error) {
			var err error
			got, err = starlark.Call(r.thread, globals[scriptFunction], nil, nil)
			if err == nil {
				_, err = r.tree(got) // or it must not be printed
			}
			return starlark.None, err
		})
		if ours != nil {
			return // the bounds are ours, and some texts of errors
		}
		want, err := plain(source)
		if err != nil && strings.Contains(err.Error(), "undefined:") {
			return // a function that only our scripts have
		}
		if err != nil {
			t.Fatalf("got %v, the plain interpreter failed: %v", got, err)
		}
		if text := got.String(); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	})
}
