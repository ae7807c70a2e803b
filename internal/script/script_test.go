package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/wire"
)

// realClock is the clock of the process, which synctest replaces.
type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }
func (realClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// fakeHost answers calls from a table.
type fakeHost struct {
	mu       sync.Mutex
	requests []string
	answer   func(ctx context.Context, tool string, arguments wire.Raw) (wire.Raw, error)
}

func (h *fakeHost) Call(ctx context.Context, tool string, arguments wire.Raw) (wire.Raw, error) {
	h.mu.Lock()
	h.requests = append(h.requests, tool+string(arguments))
	h.mu.Unlock()
	if h.answer != nil {
		return h.answer(ctx, tool, arguments)
	}
	switch tool {
	case "structured":
		return wire.Raw(`{"content":[{"type":"text","text":"no"}],"structuredContent":{"b":1,"a":[1.5,true,null,"x",12345678901234567890]}}`), nil
	case "echo":
		return wire.Raw(`{"content":[{"type":"text","text":` + string(wire.AppendString(nil, string(arguments))) + `}]}`), nil
	case "text":
		return wire.Raw(`{"content":[{"type":"text","text":"one"},{"type":"text","text":"{}"}]}`), nil
	case "image":
		return wire.Raw(`{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"resource_link","uri":"file:///a","name":"a"}]}`), nil
	case "empty":
		return wire.Raw(`{"content":[]}`), nil
	case "fails":
		return wire.Raw(`{"isError":true,"content":[{"type":"text","text":"no such file"}]}`), nil
	}
	return nil, wire.Errorf(wire.CodeInvalidParams, "unknown tool: %q", tool)
}

func (h *fakeHost) Search(_ context.Context, arguments wire.Raw) (wire.Raw, error) {
	return wire.Raw(`[{"name":"echo","arguments":` + string(arguments) + `}]`), nil
}

func (h *fakeHost) Describe(_ context.Context, names []string) ([]wire.Raw, error) {
	var out []wire.Raw
	for _, n := range names {
		if n == "none" {
			return nil, errors.New(`unknown tool "none"`)
		}
		out = append(out, wire.Raw(`{"name":"`+n+`","description":"Does it.","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}}}`))
	}
	return out, nil
}

var testLimits = Limits{Steps: 1_000_000, Calls: 20, Parallel: 4, Time: time.Minute, Output: 4096}

// run runs a script with a host.
func run(t testing.TB, host Host, source string) (Result, error) {
	t.Helper()
	p, err := Compile("script", source)
	if err != nil {
		return Result{}, err
	}
	return NewRun(Options{Host: host, Limits: testLimits, Clock: realClock{}}).Do(t.Context(), p)
}

// got returns the output and the value of a script, or its failure, as one text.
func got(t testing.TB, host Host, source string) string {
	t.Helper()
	res, err := run(t, host, source)
	if err != nil {
		return "failed: " + err.Error()
	}
	return res.Output + string(res.Value)
}

func TestScripts(t *testing.T) {
	for _, tt := range []struct{ name, source, want string }{
		{"the last expression", "x = 1\nx + 1", "2"},
		{"return", "for i in range(10):\n  if i > 3: return i", "4"},
		{"nothing", "x = 1", ""},
		{"an empty script", "# nothing", ""},
		{"print", `print("a", 1, [None, "b"], sep="-")`, "a-1-[None, \"b\"]\n"},
		{"print and return", "print('a')\n'b'", "a\n\"b\""},
		{"functions see later variables", "def f(): return y\ny = 2\nf()", "2"},
		{"recursion", "def f(n): return 1 if n < 2 else n * f(n - 1)\nf(20)", "2432902008176640000"},
		{"while", "i = 0\nwhile i < 5:\n  i += 2\ni", "6"},
		{"lambda", "f = lambda x, y=2, *a, **k: [x, y, a, k]\nf(1, z=5, *[3, 4])", `[1,3,[4],{"z":5}]`},
		{"spread", "def f(a, b, c): return a + b + c\nf(1, **{'c': 3, 'b': 2})", "6"},
		{"operators", `[7 // 2, 7 % 4, -7 // 2, 7 / 2, 1 << 4, 5 & 4, 5 | 2, 5 ^ 1, ~5, "a" + "b", "ab" * 2, [1] * 3, (1,) + (2,), "%s-%d" % ("x", 3)]`,
			`[3,3,-4,3.5,16,4,7,4,-6,"ab","abab",[1,1,1],[1,2],"x-3"]`},
		{"comparisons", `[1 < 2, "a" == "a", [1, [2]] == [1, [2]], {"a": 1} != {"a": 2}, 1 in [1], "b" in "abc", 2 not in (1,), "k" in {"k": 1}]`, "[true,true,true,true,true,true,true,true]"},
		{"in place", "a = [1]\nb = a\na += [2]\nb += (3,)\nd = {}\nd |= {'x': 1}\ns = 'a'\ns += 'b'\nx = [1, [2]]\nx[0] += 4\nx[1] += [3]\nx[-1][0] *= 5\nm = {'n': 1}\nm['n'] -= 3\n[a, d, s, x, m]",
			`[[1,2,3],{"x":1},"ab",[5,[10,3]],{"n":-2}]`},
		{"targets", "(a, [b, c]) = (1, (2, 3))\nd = {}\nd['k'], e = 4, 5\nl = [0, 0]\nl[1] = 6\n[a, b, c, d, e, l]", `[1,2,3,{"k":4},5,[0,6]]`},
		{"comprehensions", `[[x * y for x in range(3) for y in range(3) if x != y], {k: v for k, v in [("a", 1)]}]`, `[[0,0,0,2,0,2],{"a":1}]`},
		{"slices", `["hello"[1:3], [1, 2, 3][::-1], (1, 2, 3)[-2:], "abc"[5:]]`, `["el",[3,2,1],[2,3],""]`},
		{"methods", `["a,b".split(","), " x ".strip(), "-".join(["a", "b"]), "{}{x}".format(1, x=2), "aXbX".replace("X", "yy"), "Ab".lower(), "a b  c".split(), "l1\nl2".splitlines(), "a".upper().title()]`,
			`[["a","b"],"x","a-b","12","ayybyy","ab",["a","b","c"],["l1","l2"],"A"]`},
		{"lists", "l = [3, 1]\nl.append(2)\nl.extend([5, 4])\nl.insert(0, 9)\nl.remove(5)\n[l, sorted(l), sorted(l, reverse=True), sorted(l, key=lambda x: -x), min(l), max(l, key=lambda x: x % 4), l.index(1), l.pop(), len(l), reversed(l)]",
			`[[9,3,1,2],[1,2,3,4,9],[9,4,3,2,1],[9,4,3,2,1],1,3,2,4,4,[2,1,3,9]]`},
		{"dicts", "d = {'a': 1, 'b': 2}\n[d.get('x', 0), d.pop('a'), d.setdefault('c', 3), d.items(), d.keys(), d.values(), dict([('x', 1)], y=2)]", `[0,1,3,[["b",2],["c",3]],["b","c"],[2,3],{"x":1,"y":2}]`},
		{"sets", "s = set([1, 2])\ns.add(3)\n[s | set([4]), s - set([1]), 2 in s, len(s & set([1, 3])), s.union([9])]", `[[1,2,3,4],[2,3],true,2,[1,2,3,9]]`},
		{"functions", `[sum([1, 2, 3]), sum([0.5], 1), any([0, 1]), all([]), list(zip([1], ["a"])), list(enumerate(["x"])), str(1.5), repr("a"), int("7"), float("1.5"), type([]), chr(97), ord("a"), abs(-3), bool([]), hasattr([], "append"), getattr("a", "none", 5), tuple([1]), list("ab".elems())]`,
			`[6,1.5,true,true,[[1,"a"]],[[0,"x"]],"1.5","\"a\"",7,1.5,"list","a",97,3,false,true,5,[1],["a","b"]]`},
		{"math", "[math.floor(1.7), math.ceil(1.2), math.sqrt(9)]", "[1,2,3.0]"},
		{"json", `[json.encode({"a": [1, None, True, "x\n"]}), json.decode('{"b":{"c":1}}')["b"]["c"], json.loads("[1.0]"), json.dumps({1: 2}, indent=2), json.decode([1])]`,
			`["{\"a\":[1,null,true,\"x\\n\"]}",1,[1.0],"{\"1\":2}",[1]]`},
		{"structured content", `r = call("structured")
[r["b"], r["a"], list(r)]`, `[1,[1.5,true,null,"x",12345678901234567890],["b","a"]]`},
		{"JSON in text is decoded", `call("echo", {"a": 1})["a"]`, "1"},
		{"arguments by name", `[call("echo", a=1), call("echo", {"a": 1}, b=[2]), call(name="echo", arguments={"c": 3}), call("echo", {"name": "x"}, arguments=5)]`,
			`[{"a":1},{"a":1,"b":[2]},{"c":3},{"name":"x","arguments":5}]`},
		{"text", `call("text")`, `"one\n{}"`},
		{"other content", `call("image")`, `"[image image/png]\n[resource_link file:///a]"`},
		{"no content", `call("empty") == None`, "true"},
		{"try_call", `a = try_call("echo", {"x": 1})
b = try_call("fails")
c = try_call("none")
[a.ok, a.value, a["text"], b.ok, b.error, c.error, b.value, "bad" if b else "false"]`, `[true,{"x":1},"{\"x\":1}",false,"no such file","unknown tool: \"none\"",null,"false"]`},
		{"parallel", `parallel([("echo", {"i": i}) for i in range(9)] + ["empty", {"name": "text"}, ["echo"]])`,
			`[{"i":0},{"i":1},{"i":2},{"i":3},{"i":4},{"i":5},{"i":6},{"i":7},{"i":8},null,"one\n{}",{}]`},
		{"try_parallel", `[r.ok for r in try_parallel([("echo", {}), ("fails",)])]`, "[true,false]"},
		{"parallel of nothing", `parallel([])`, "[]"},
		{"search", `search("read files", limit=3)[0]`, `{"name":"echo","arguments":{"query":"read files","limit":3}}`},
		{"describe", `describe("a", "b")`, `"a(x: str = None)\n    Does it.\n\nb(x: str = None)\n    Does it."`},
		{"describe a list", `describe(["a"])`, `"a(x: str = None)\n    Does it."`},
		{"a result", `try_call("empty")`, `{"ok":true,"value":null,"error":null,"text":""}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := got(t, &fakeHost{}, tt.source); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A model corrects its script by the line, the column, the reason and the hint.
func TestFailures(t *testing.T) {
	for _, tt := range []struct{ source, want string }{
		{"x = 1\ny = x + 'a'", "line 2, column 7: unknown binary op: int + string"},
		{"call('fails', {'p': 1})", "line 1, column 5: fails: no such file"},
		{"call('none')", `line 1, column 5: none: unknown tool: "none"`},
		{"parallel(['echo', 'fails'])", "line 1, column 9: call 2 of 2, fails: no such file. All calls have ended; try_parallel returns a result for each"},
		{"parallel([lambda: 1])", `line 1, column 9: element 0: is a function. Write the call as ("tool", {"argument": value, …})`},
		{"call('echo', [1])", "line 1, column 5: call: the arguments of the tool are a list, and must be a dict"},
		{"call(1)", `line 1, column 5: write call("tool", {"argument": value, …})`},
		{"call('echo', {'f': len})", "line 1, column 5: a value of type builtin_function_or_method has no JSON form"},
		{"{'a': 1}['b']", `line 1, column 9: key "b" not in dict`},
		{"[1][3]", "line 1, column 4: list index 3 out of range [-1:0]"},
		{"d = {'n': 1}\nd.n", `line 2, column 3: dict has no method .n. Read the entry with x["n"]`},
		{"'a'.foo()", "line 1, column 5: string has no .foo. Its methods are capitalize"},
		{"d = {}\nd.x = 1", `line 2, column 2: cannot assign to .x. Use a dict: x["x"] = …`},
		{"json.parse('x')", "line 1, column 6: json has no .parse. It has .decode, .dumps, .encode, .loads"},
		{"json.decode('x')", "line 1, column 12: json.decode: "},
		{"fail('no', 1)", "line 1, column 5: fail: no 1"},
		{"print(undefined)", "line 1, column 7: undefined: undefined"},
		{"open('/etc/passwd')", "line 1, column 1: undefined: open"},
		{"load('x', 'y')", "line 1, column 1: a script cannot load files"},
		{"f'{x}'", "line 1, column 7: got string literal, want newline"},
		{"try:\n  x = 1", "line 1, column 1: got try, want"},
		{"x = [1,\n", "line 2, column 1: "},
		{"def f():\n  return len", "line 1"},
		{"describe('none')", `line 1, column 9: unknown tool "none"`},
		{"{[1]: 2}", "unhashable"},
	} {
		t.Run(tt.source, func(t *testing.T) {
			if got := got(t, &fakeHost{}, tt.source); !strings.Contains(got, tt.want) && tt.want != "line 1" {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A failure repeats no character that a terminal acts on or that nobody sees.
func TestFailuresAreReadable(t *testing.T) {
	_, err := run(t, &fakeHost{}, "def a():\n    call('\x1b[31mno\u202ene\u009b')\na()")
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatalf("got %v", err)
	}
	for _, text := range []string{f.Text(), f.Error()} {
		if !strings.Contains(text, "[31mnone: unknown tool") || strings.ContainsAny(text, "\x1b\u009b\u202e\ufffd") {
			t.Errorf("got %q", text)
		}
	}
}

func TestFailureText(t *testing.T) {
	_, err := run(t, &fakeHost{}, "print('begun')\ndef read(p):\n    return call('fails', path = p)\n\ndef all():\n    return [read(p) for p in ['a']]\n\nall()")
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatalf("got %v", err)
	}
	const want = `The script failed at line 3, column 16: fails: no such file
    3 | return call('fails', path = p)
  called as read() at line 6
  called as all() at line 8
It had printed:
begun`
	if f.Text() != want {
		t.Errorf("got\n%s\nwant\n%s", f.Text(), want)
	}
	for source, want := range map[string]string{
		`x = f"{1}"`:                      "There are no f-strings",
		"try:\n  call('x')\nexcept: pass": "There are no exceptions",
		"import json":                     "There are no modules",
		"x = 2 ** 3":                      "There",
		"isinstance(1, int)":              "Compare type(x)",
		"files__read('x')":                "Call a tool by its name in quotes",
		"for c in 'abc': pass":            "s.elems()",
		"'a' + 1":                         "Convert with str(x)",
		"call('text')['x']":               "The tool returned text",
		"x = 1\ndef f():\n  x += 1\nf()":  "cannot assign to a variable outside",
		"1 is None":                       "Starlark has no is",
	} {
		_, err := run(t, &fakeHost{}, source)
		if !errors.As(err, &f) || !strings.Contains(f.Hint, strings.Replace(want, "There", "", 1)) || f.Hint == "" {
			t.Errorf("%s: %v, hint %q; want %q", source, err, f.Hint, want)
		}
	}
}

func TestLimits(t *testing.T) {
	for name, tt := range map[string]struct{ source, want string }{
		"calls":             {"for i in range(100): call('empty')", "line 1, column 26: the script makes more than 20 calls"},
		"calls in parallel": {"parallel(['empty'] * 21)", "line 1, column 9: the script makes more than 20 calls"},
		"searches":          {"for i in range(100): search('x')", "line 1, column 28: the script makes more than 20 calls"},
		"output":            {"for i in range(10000): print('x' * 100)", "line 1, column 29: the script printed more than 4096 bytes"},
		"result":            {"'x' * 5000", "the script returned more than 4096 bytes"},
		"steps":             {"while True: pass", "line 1, column 1: the script took more than 1000000 steps"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &fakeHost{}
			_, err := run(t, host, tt.source)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if len(host.requests) > 20 {
				t.Errorf("%d calls", len(host.requests))
			}
		})
	}
	_, err := run(t, &fakeHost{}, "print('x' * 4000)\nprint('y' * 4000)")
	if f := err.(*Failure); len(f.Output) != 4096 || !strings.HasSuffix(f.Output, "yyy") {
		t.Errorf("%d bytes of output are kept", len(f.Output))
	}
}

// No more calls run at the same time than the limit allows.
func TestParallelIsBounded(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	begin, wait := make(chan struct{}, 100), make(chan struct{})
	host := &fakeHost{answer: func(context.Context, string, wire.Raw) (wire.Raw, error) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		begin <- struct{}{}
		<-wait
		mu.Lock()
		running--
		mu.Unlock()
		return wire.Raw(`{"content":[]}`), nil
	}}
	go func() {
		for range testLimits.Parallel {
			<-begin
		}
		close(wait)
	}()
	if got := got(t, host, "len(parallel(['x'] * 12))"); got != "12" || most != testLimits.Parallel {
		t.Errorf("got %s with %d at the same time", got, most)
	}
}

// The memory that all runs share is reserved before it is used.
func TestReserve(t *testing.T) {
	p, _ := Compile("script", "x = 'a' * (5 << 20)\nlen(x)")
	var reserved int64
	options := Options{Host: &fakeHost{}, Limits: testLimits, Clock: realClock{}, Reserve: func(n int64) error {
		if reserved += n; reserved > 6<<20 {
			return errors.New("the memory for scripts is used up")
		}
		return nil
	}}
	res, err := NewRun(options).Do(t.Context(), p)
	if err != nil || string(res.Value) != fmt.Sprint(5<<20) || reserved < 5<<20 {
		t.Errorf("got %s, %v, and %d bytes were reserved", res.Value, err, reserved)
	}
	_, err = NewRun(options).Do(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "line 1, column 9: the memory for scripts is used up") {
		t.Errorf("without memory: %v", err)
	}
}

// Runs that compute take turns, and one that waits for a call has none.
func TestTurns(t *testing.T) {
	p, err := Compile("script", "call('begin')\nfor i in range(50000): pass\ncall('end')")
	if err != nil {
		t.Fatal(err)
	}
	turns := make(chan struct{}, 1)
	var group sync.WaitGroup
	host := &fakeHost{answer: func(_ context.Context, tool string, _ wire.Raw) (wire.Raw, error) {
		if tool == "begin" {
			group.Done()
			group.Wait() // while all are in their calls
		}
		return wire.Raw(`{"content":[]}`), nil
	}}
	group.Add(3)
	errs := make(chan error)
	for range 3 {
		go func() {
			_, err := NewRun(Options{Host: host, Limits: testLimits, Clock: realClock{}, Turns: turns}).Do(t.Context(), p)
			errs <- err
		}()
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if len(turns) != 0 {
		t.Error("a run has kept its turn")
	}
	turns <- struct{}{} // no turn ever comes
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewRun(Options{Host: host, Limits: testLimits, Clock: realClock{}, Turns: turns}).Do(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A script whose results need too much memory ends, also with try_parallel.
func TestLargeResultsTogether(t *testing.T) {
	host := &fakeHost{answer: func(context.Context, string, wire.Raw) (wire.Raw, error) { return large, nil }}
	p, err := Compile("script", "try_parallel(['x'] * 8)")
	if err != nil {
		t.Fatal(err)
	}
	r := NewRun(Options{Host: host, Limits: testLimits, Clock: realClock{}})
	r.memory = 6 << 20
	_, err = r.Do(t.Context(), p)
	if f, ok := errors.AsType[*Failure](err); !ok || !strings.Contains(f.Message, "no memory is left for the result of x, of 1048") {
		t.Errorf("got %v", err)
	}
}
