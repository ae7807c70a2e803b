package script

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/wire"
)

// aBound stands for that of steps or that of memory, whichever is reached first.
const aBound = "a bound"

// hostile are scripts that try to take more than a run may have. Each ends with an error
// that contains want.
var hostile = []struct{ name, source, want string }{
	{"endless loop", "while True: pass", "steps"},
	{"endless loop in a comprehension", "[0 for a in range(1000000000) for b in range(1000000000)]", aBound},
	{"power", "x = 2\nwhile True: x = x * x", "4096 bits"},
	{"power in place", "x = 2\nwhile True: x *= x", "4096 bits"},
	{"power in an element", "x = [2]\nwhile True: x[0] *= x[0]", "4096 bits"},
	{"shift", "x = 1\nwhile True: x = x << 500", "4096 bits"},
	{"huge integer", "int('9' * 100000)", "too long for a number"},
	{"huge integer in JSON", "json.decode('9' * 100000)", "1000 digits"},
	{"huge literal", "x = " + strings.Repeat("9", 60000), "4096 bits"},
	{"string repetition", "'a' * 1000000000", "out of memory"},
	{"string repetition, reversed", "1000000000 * 'a'", "out of memory"},
	{"string repetition beyond 64 bits", "'aa' * (1 << 63)", "out of memory"},
	{"bytes repetition", "b'a' * 1000000000", "out of memory"},
	{"list repetition", "[0] * 1000000000", "out of memory"},
	{"tuple repetition", "(0,) * 1000000000", "out of memory"},
	{"repetition in place", "x = [0]\nx *= 1000000000", "out of memory"},
	{"repetition in an element", "x = {'a': 'b'}\nx['a'] *= 1000000000", "out of memory"},
	{"doubling a string", "x = 'a'\nwhile True: x = x + x", aBound},
	{"doubling a string in place", "x = 'a'\nwhile True: x += x", aBound},
	{"doubling a list", "x = [0]\nwhile True: x = x + x", aBound},
	{"doubling a list in place", "x = [0]\nwhile True: x += x", aBound},
	{"doubling by extend", "x = [0]\nwhile True: x.extend(x)", aBound},
	{"doubling by getattr", "x = [0]\nwhile True: getattr(x, 'extend')(list(x))", aBound},
	{"doubling by format", "x = 'a'\nwhile True: x = '{0}{0}'.format(x)", aBound},
	{"doubling by a format of names", "x = 'a'\nwhile True: x = '{x}{x}'.format(x = x)", aBound},
	{"doubling by %", "x = 'a'\nwhile True: x = '%s%s' % (x, x)", "out of memory"},
	{"doubling by % of a dict", "x = 'a'\nwhile True: x = '%(x)s%(x)s' % {'x': x}", "out of memory"},
	{"doubling by join", "x = 'a'\nwhile True: x = x.join([x, x, x])", aBound},
	{"doubling by replace", "x = 'aa'\nwhile True: x = x.replace('a', 'aaa')", aBound},
	{"replacing by a long text", "x = ('a' * 100000).replace('a', 'b' * 100000)", "out of memory"},
	{"replacing nothing by a long text", "x = ('a' * 100000).replace('', 'b' * 100000)", "out of memory"},
	{"doubling by slices", "x = [0] * 1000000\ny = []\nwhile True: y.append(x[:])", "out of memory"},
	{"doubling by repr", "x = 'a\\n'\nwhile True: x = repr(x)", aBound},
	{"doubling by JSON", "x = '\\\"'\nwhile True: x = json.encode(x)", aBound},
	{"splitting", "x = 'a,' * 10000000\nx.split(',')", "out of memory"},
	{"splitting lines", "x = '\\n' * 10000000\nx.splitlines()", "out of memory"},
	{"splitting words", "x = 'a ' * 10000000\nx.split()", "out of memory"},
	{"splitting by a name", "x = 'a,' * 10000000\nx.split(sep = ',')", aBound},
	{"splitting from the right", "x = 'a,' * 10000000\nx.rsplit(',')", "out of memory"},
	{"partial sums of a text", "x = 'a' * 1000000\ny = []\nwhile True: y.append(x.upper())", aBound},
	{"list of a range", "list(range(1000000000))", aBound},
	{"tuple of a range", "tuple(range(1000000000))", "steps"},
	{"sorted range", "sorted(range(1000000000))", "steps"},
	{"sorted range by name", "sorted(iterable = range(1000000000))", "steps"},
	{"set of a range", "set(range(1000000000))", "steps"},
	{"sum of a range", "sum(range(1000000000))", "steps"},
	{"max of a range", "max(range(1000000000))", "steps"},
	{"any of a range", "any(range(1000000000))", "steps"},
	{"enumerated range", "enumerate(range(1000000000))", "steps"},
	{"zipped ranges", "zip(range(1000000000), range(1000000000))", "steps"},
	{"reversed range", "reversed(range(1000000000))", "steps"},
	{"range added to a list", "x = []\nx += range(1000000000)", "steps"},
	{"range as arguments", "def f(*a): pass\nf(*range(1000000000))", "steps"},
	{"range in a comprehension", "[x for x in range(1000000000)]", aBound},
	{"range in a dict", "{x: x for x in range(1000000000)}", aBound},
	{"many dicts", "x = []\nwhile True: x.append({})", aBound},
	{"many dicts in a comprehension", "[{1: 2} for x in range(1000000000)]", aBound},
	{"many lists", "x = []\nwhile True: x.append([[], [], [], []])", aBound},
	{"many functions", "x = []\nwhile True: x.append(lambda: x)", aBound},
	{"many nested functions", "def f(a, b, c, d):\n  return lambda: [a, b, c, d]\nx = []\nwhile True: x.append(f(1, 2, 3, 4))", aBound},
	{"many methods", "x = []\nwhile True: x.append(x.append)", aBound},
	{"many entries", "x = {}\ni = 0\nwhile True:\n  x[i] = [i]\n  i += 1", aBound},
	{"many characters", "x = []\nwhile True: x.extend('abcdefghijklmnopqrstuvwxyz'.elems())", aBound},
	{"a list of a long text", "list(('a' * 5000000).elems())", "steps"},
	{"a list of code points", "list(('a' * 50000000).codepoints())", "steps"},
	{"keyword arguments", "def f(**k): return k\nx = {}\nfor i in range(10000): x[str(i)] = i\ny = []\nwhile True: y.append(f(**x))", aBound},
	{"endless recursion", "def f(): f()\nf()", "endless recursion"},
	{"endless recursion of two", "def f(): g()\ndef g(): f()\nf()", "endless recursion"},
	{"endless recursion of a lambda", "f = lambda x: x(x)\nf(f)", "endless recursion"},
	{"endless recursion by sorted", "def f(x): return sorted([1], key = f)\nf(1)", "endless recursion"},
	{"a wide recursion", "def f(n): return 0 if n == 0 else f(n - 1) + f(n - 1)\nf(100)", "steps"},
	{"deep value printed", "x = []\nfor i in range(10000): x = [x]\nprint(x)", "nested over 100 levels"},
	{"deep value compared", "x = []\ny = []\nfor i in range(10000):\n  x = [x]\n  y = [y]\nx == y", "nested over 100 levels"},
	{"deep value returned", "x = []\nfor i in range(10000): x = [x]\nx", "nested over 100 levels"},
	{"deep value as argument", "x = []\nfor i in range(10000): x = [x]\ncall('echo', {'x': x})", "nested over 100 levels"},
	{"deep key", "x = ()\nfor i in range(10000): x = (x,)\n{x: 1}", "nested over 100 levels"},
	{"a value that contains itself", "x = []\nx.append(x)\nprint(x)", "contains itself"},
	{"a dict that contains itself", "x = {}\nx['x'] = x\nx", "contains itself"},
	{"a list that contains itself, searched", "x = []\nx.append(x)\nx.index([x])", "contains itself"},
	{"wide value printed", "x = []\nfor i in range(60): x = [x, x]\nprint(x)", "too large"},
	{"wide value as text", "x = []\nfor i in range(60): x = [x, x]\nstr(x)", "too large"},
	{"wide value formatted", "x = []\nfor i in range(60): x = [x, x]\n'%r' % [x]", "too large"},
	{"wide value formatted by name", "x = []\nfor i in range(60): x = [x, x]\n'{x}'.format(x = x)", "too large"},
	{"wide value compared", "x = [0] * 1000\nfor i in range(8): x = [x] * 1000\nx == [x]", "too large"},
	{"wide value contained", "x = [0] * 1000\nfor i in range(8): x = [x] * 1000\n[x] in [x]", "too large"},
	{"wide value counted", "x = [0] * 1000\nfor i in range(8): x = [x] * 1000\n[x].index([])", "too large"},
	{"wide value removed", "x = [0] * 1000\nfor i in range(8): x = [x] * 1000\n[x].remove([])", "too large"},
	{"wide value sorted", "x = [0] * 1000\nfor i in range(8): x = [x] * 1000\nsorted([x, x])", "too large"},
	{"wide key of sorted", "x = [0] * 1000\nfor i in range(8): x = [x] * 1000\nsorted([1, 2], key = lambda a: x)", "too large"},
	{"wide key of max", "x = [0] * 1000\nfor i in range(8): x = [x] * 1000\nmax([1, 2], key = lambda a: x)", "too large"},
	{"wide key", "x = ()\nfor i in range(60): x = (x, x)\n{x: 1}", "too large"},
	{"wide key assigned", "x = ()\nfor i in range(60): x = (x, x)\nd = {}\nd[x] = 1", "too large"},
	{"wide key unpacked", "x = ()\nfor i in range(60): x = (x, x)\nd = {}\nd[x], y = 1, 2", "too large"},
	{"wide key looked up", "x = ()\nfor i in range(60): x = (x, x)\n{}[x]", "too large"},
	{"wide key in place", "x = ()\nfor i in range(60): x = (x, x)\nd = {}\nd[x] += 1", "too large"},
	{"wide key got", "x = ()\nfor i in range(60): x = (x, x)\n{}.get(x)", "too large"},
	{"wide key of a set", "x = ()\nfor i in range(60): x = (x, x)\nset([x])", "too large"},
	{"wide key added", "x = ()\nfor i in range(60): x = (x, x)\ns = set()\ns.add(x)", "too large"},
	{"wide key contained", "x = ()\nfor i in range(60): x = (x, x)\nx in {}", "too large"},
	{"wide key of dict", "x = ()\nfor i in range(60): x = (x, x)\ndict([(x, 1)])", "too large"},
	{"wide key updated", "x = ()\nfor i in range(60): x = (x, x)\n{}.update([(x, 1)])", "too large"},
	{"wide key in a union", "x = ()\nfor i in range(60): x = (x, x)\nset().union([x])", "too large"},
	{"wide value returned", "x = []\nfor i in range(60): x = [x, x]\nx", "too large"},
	{"wide value in a failure", "x = []\nfor i in range(60): x = [x, x]\nfail(x)", "too large"},
	{"wide value in a result", "x = []\nfor i in range(60): x = [x, x]\nprint([try_call('empty'), x])", "too large"},
	{"long text in a wide value", "x = 'a' * 10000000\nprint([x] * 100)", aBound},
	{"long key in an error", "x = '\\x01' * 50000000\n{}[x]", "out of memory"},
	{"long texts contained", "x = 'a' * 1000000\nl = [x + 'b'] * 1000\nwhile True: (x + 'c') in l", aBound},
	{"long texts counted", "x = 'a' * 1000000\nl = [x + 'b'] * 1000\ny = x + 'c'\nwhile True: y in l", aBound},
	{"long texts found", "x = 'a' * 1000000\nl = [x + 'b'] * 1000 + [x + 'c']\ny = x + 'c'\nwhile True: l.index(y)", aBound},
	{"join of a range", "''.join(range(1000000000))", "steps"},
	{"join of code points", "''.join(('a' * 50000000).codepoints())", aBound},
	{"ten thousand calls", "for i in range(10000): call('empty')", "20 calls"},
	{"ten thousand calls at the same time", "parallel(['empty'] * 10000)", "20 calls"},
	{"calls of a range", "parallel(range(1000000000))", "20 calls"},
	{"caught calls", "for i in range(10000): try_call('none')", "20 calls"},
	{"output flood", "while True: print('x' * 1000)", "printed more than"},
	{"output flood of separators", "while True: print(1, 2, sep = 'x' * 1000)", "printed more than"},
	{"huge print", "print('x' * 100000000)", aBound},
	{"huge argument", "call('echo', {'x': 'x' * 5000000})", "more than 4194304 bytes"},
	{"huge failure", "fail('x' * 10000000)", "xxx"},
	{"huge structured result", "call('huge')", aBound},
	{"deep JSON of a tool", "call('deep')", "levels deep"},
	{"deep JSON", "json.decode('[' * 100000)", "json.decode"},
	{"a value in a cycle of assignments", "x = [1]\nx[0] = x\nx == [x]", "contains itself"},
	{"brackets", strings.Repeat("(", 30000), "excessive nesting"},
	{"brackets of lists", strings.Repeat("[", 30000), "excessive nesting"},
	{"signs", strings.Repeat("-", 60000) + "1", "excessive nesting"},
	{"negations", strings.Repeat("not ", 15000) + "1", "excessive nesting"},
	{"lambdas", strings.Repeat("lambda:", 9000) + "1", "excessive nesting"},
	{"conditions", strings.Repeat("1 if 1 else ", 5000) + "1", "excessive nesting"},
	{"sums", strings.Repeat("1+", 30000) + "1", "nested too deeply"},
	{"attributes", "x" + strings.Repeat(".a", 30000), "nested too deeply"},
	{"calls of calls", "f" + strings.Repeat("()", 30000), "nested too deeply"},
	{"else branches", "if 1: pass\n" + strings.Repeat("elif 1: pass\n", 4000), "nested too deeply"},
	{"a long script", strings.Repeat("#", 70000), "may have 65536"},
	{"iteration while it grows", "x = [1]\nfor i in x: x.append(i)", "during iteration"},
	{"names of our own", "x = locals()", "undefined"},
	{"assignment of a function", "len = 5\nlen([])", "invalid call of non-function"},
	{"many variables", strings.Repeat("a,", 20000) + "a = 1", "sequence assignment"},
}

// hugeHost has results that are too large.
type hugeHost struct{ fakeHost }

func (h *hugeHost) Call(ctx context.Context, tool string, arguments wire.Raw) (wire.Raw, error) {
	switch tool {
	case "huge":
		return wire.Raw(`{"structuredContent":[` + strings.Repeat("{},", 300_000) + `{}]}`), nil
	case "deep":
		return wire.Raw(`{"structuredContent":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `}`), nil
	}
	return h.fakeHost.Call(ctx, tool, arguments)
}

// A hostile script ends with a clear error. All memory that it ever allocates is bounded,
// garbage included, so what it holds at any time is too.
func TestHostileScripts(t *testing.T) {
	const most = 8 * MaxMemory // of which MaxMemory is held; 1,000,000 steps make garbage
	var worst uint64
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := run(t, &hugeHost{}, tt.source)
			runtime.ReadMemStats(&after)
			f, ok := errors.AsType[*Failure](err)
			if !ok {
				t.Fatalf("got %v, want a failure", err)
			}
			matches := strings.Contains(f.Error(), tt.want)
			if tt.want == aBound {
				matches = strings.Contains(f.Message, "steps") || strings.Contains(f.Message, "out of memory")
			}
			if !matches {
				t.Errorf("got %v, want %s", f, tt.want)
			}
			if n := len(f.Text()); n > 10_000 {
				t.Errorf("the failure has %d bytes", n)
			}
			allocated := after.TotalAlloc - before.TotalAlloc
			worst = max(worst, allocated)
			if allocated > most {
				t.Errorf("it allocated %d MiB", allocated>>20)
			}
			if testing.Verbose() {
				t.Logf("%d MiB: %s", allocated>>20, f.Error())
			}
		})
	}
	t.Logf("at most %d MiB", worst>>20)
}

// The limit of time ends a run and its calls.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &fakeHost{answer: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		begin := time.Now()
		_, err := run(t, host, "print(1)\nparallel(['wait', 'wait'])")
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Message != "the script took longer than 1m0s" || f.Line != 2 || f.Output != "1\n" || time.Since(begin) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}

// The time of a pause does not count, also if several pauses overlap.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Compile("script", "call('ask')\ncall('ask')")
		if err != nil {
			t.Fatal(err)
		}
		var r *Run
		host := &fakeHost{answer: func(context.Context, string, wire.Raw) (wire.Raw, error) {
			time.Sleep(20 * time.Second)
			r.Pause()
			r.Pause()
			time.Sleep(time.Hour)
			r.Resume()
			time.Sleep(time.Hour)
			r.Resume()
			return wire.Raw(`{"content":[]}`), nil
		}}
		r = NewRun(Options{Host: host, Limits: testLimits, Clock: realClock{}})
		if _, err := r.Do(t.Context(), p); err != nil {
			t.Errorf("with 40 s of its own: %v", err)
		}
	})
}

// The end of the context ends a run and its calls, with the cause of the context.
func TestCancellation(t *testing.T) {
	cause := errors.New("the client has cancelled")
	for name, source := range map[string]string{"in a call": "call('wait')\ncall('wait')", "caught": "while True: try_call('wait')", "computing": "call('end')\nwhile True: pass"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			host := &fakeHost{answer: func(ctx context.Context, tool string, _ wire.Raw) (wire.Raw, error) {
				cancel(cause)
				if tool == "end" {
					return wire.Raw(`{"content":[]}`), nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			p, err := Compile("script", source)
			if err != nil {
				t.Fatal(err)
			}
			_, err = NewRun(Options{Host: host, Limits: testLimits, Clock: realClock{}}).Do(ctx, p)
			if err != cause || len(host.requests) != 1 {
				t.Errorf("got %v after %d calls", err, len(host.requests))
			}
		})
	}
}
