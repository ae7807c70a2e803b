package wire

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		edit     func(e *Edit)
		want     string
	}{
		{"nothing", ` { "a" : 1 } `, func(*Edit) {}, ` { "a" : 1 } `},
		{"replace", ` { "a" : 1 , "b":2} `, func(e *Edit) { e.Replace(e.Root().Get("a"), Raw(`[ ]`)) }, ` { "a" : [ ] , "b":2} `},
		{"replace the root", ` 1 `, func(e *Edit) { e.Replace(e.Root(), Raw(`2`)) }, ` 2 `},
		{"replace out of order", `{"a":1,"b":2,"c":3}`, func(e *Edit) {
			for _, k := range []string{"c", "a", "b"} {
				e.ReplaceString(e.Root().Get(k), k)
			}
		}, `{"a":"a","b":"b","c":"c"}`},
		{"replace what is absent", `{"a":1}`, func(e *Edit) { e.Replace(e.Root().Get("b"), Raw(`2`)) }, `{"a":1}`},
		{"replace a string with quotes", `{"a":1}`, func(e *Edit) { e.ReplaceString(e.Root().Get("a"), "\"\\\n\xff") }, "{\"a\":\"\\\"\\\\\\n\ufffd\"}"},
		{"add to an empty object", `{ }`, func(e *Edit) { e.Add(e.Root(), `k"`, Raw(`1`)) }, `{ "k\"":1}`},
		{"add to a full object", `{"a":1 }`, func(e *Edit) { e.Add(e.Root(), "b", Raw(`2`)) }, `{"a":1 ,"b":2}`},
		{"add several", `{}`, func(e *Edit) {
			e.Add(e.Root(), "a", Raw(`1`))
			e.Add(e.Root(), "b", Raw(`2`))
		}, `{"a":1,"b":2}`},
		{"add to nested empty objects", `{"a":{"b":{}}}`, func(e *Edit) {
			e.Add(e.Root(), "x", Raw(`1`))
			e.Add(e.Root().Get("a", "b"), "z", Raw(`3`))
			e.Add(e.Root().Get("a"), "y", Raw(`2`))
		}, `{"a":{"b":{"z":3},"y":2},"x":1}`},
		{"add to a string", `{"_meta":"x"}`, func(e *Edit) { e.Add(e.Root().Get("_meta"), "k", Raw(`1`)) }, `{"_meta":"x"}`},
		{"set in what is absent", `{"a":1}`, func(e *Edit) { e.Set(e.Root().Get("_meta"), "k", Raw(`1`)) }, `{"a":1}`},
		{"set in an array", `[]`, func(e *Edit) { e.Set(e.Root(), "k", Raw(`1`)) }, `[]`},
		{"set what is there, escaped", `{"na\u006de":1}`, func(e *Edit) { e.Set(e.Root(), "name", Raw(`2`)) }, `{"na\u006de":2}`},
		{"set what is not there", `{"a":1}`, func(e *Edit) { e.Set(e.Root(), "b", Raw(`2`)) }, `{"a":1,"b":2}`},
		{"remove the first", `{ "a":1 , "b":2}`, func(e *Edit) { e.Remove(e.Root(), "a") }, `{ "b":2}`},
		{"remove the last", `{"a":1 , "b":2 }`, func(e *Edit) { e.Remove(e.Root(), "b") }, `{"a":1 }`},
		{"remove from the middle", `{"a":1, "b":2, "c":3}`, func(e *Edit) { e.Remove(e.Root(), "b") }, `{"a":1, "c":3}`},
		{"remove all", `{ "a":1 , "b":2 }`, func(e *Edit) { e.Remove(e.Root(), "b", "a") }, `{  }`},
		{"remove duplicates, escaped", `{"k":1,"a":2,"\u006b":3}`, func(e *Edit) { e.Remove(e.Root(), "k") }, `{"a":2}`},
		{"remove what is absent", `{"a":1}`, func(e *Edit) { e.Remove(e.Root(), "b") }, `{"a":1}`},
		{"remove and replace", `{"a":1,"b":2,"c":{"d":3}}`, func(e *Edit) {
			e.Replace(e.Root().Get("a"), Raw(`9`))
			e.Add(e.Root().Get("c"), "e", Raw(`4`))
			e.Remove(e.Root(), "b")
		}, `{"a":9,"c":{"d":3,"e":4}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := NewEdit(Raw(tc.in))
			tc.edit(e)
			if got := string(e.Bytes()); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if e.Changed() != (tc.in != tc.want) {
				t.Errorf("Changed = %v", e.Changed())
			}
			if again := string(e.Bytes()); again != tc.want {
				t.Errorf("asked again, Bytes gives %s", again)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, text := range []string{
		`{}`, `{ }`, `5`, `"k"`, `[{"k":1}]`, ``, `{"a":1}`, `{"a":{"k":1}}`, `{"k":1}`, `{ "k" : 1 }`, `{"k":1,"a":2}`, `{ "k" : {"k":"}"} , "a" : 2 }`,
		`{"a":1,"k":2}`, `{ "a" : 1 , "k" : "," }`, `{"a":1,"k":2,"b":3}`, `{"a":1 , "k":2 , "b":3 }`, `{"a":"\"","\u006b":[2],"b":3}`, ` {"k":1} `,
	} {
		e := NewEdit(Raw(text))
		want := e.Root().Get("k")
		e.Remove(e.Root(), "k")
		member, before, after := e.Root().Cut("k")
		if string(member.Raw()) != string(want.Raw()) {
			t.Errorf("%s: the member is %s, want %s", text, member.Raw(), want.Raw())
		}
		if left := string(before) + string(after); want.Exists() && left != strings.TrimSpace(string(e.Bytes())) || !want.Exists() && left != "" {
			t.Errorf("%s: left is %s, want %s", text, left, e.Bytes())
		}
	}
}

func TestEditRemoveElements(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                   `[]`,
		`[ 1 ]`:                `[  ]`,
		`[1, 2, 3]`:            `[2]`,
		`[2, 1, 4, 3 ]`:        `[2, 4 ]`,
		`[1 ,1 ,2, 2]`:         `[2, 2]`,
		`[2, 2]`:               `[2, 2]`,
		`{"1":1}`:              `{"1":1}`,
		`[ 2 , [1] , 1 , "1"]`: `[ 2 , [1] , "1"]`,
	} {
		e := NewEdit(Raw(in))
		odd, asked := 0, 0
		n := e.RemoveElements(e.Root(), func(v Value) bool {
			asked++
			i, ok := v.Int()
			if ok && i%2 == 1 {
				odd++
				return true
			}
			return false
		})
		if got := string(e.Bytes()); got != want || n != odd {
			t.Errorf("%s became %s with %d removed, want %s with %d", in, got, n, want, odd)
		}
	}
}

func TestSetMember(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:            `{"k":1}`,
		`{"k":[2]}`:     `{"k":1}`,
		` {"a":{}} `:    ` {"a":{},"k":1} `,
		`5`:             `5`,
		`"{}"`:          `"{}"`,
		``:              ``,
		`{"a":{"k":2}}`: `{"a":{"k":2},"k":1}`,
	} {
		if got := string(SetMember(Raw(in), "k", Raw(`1`))); got != want {
			t.Errorf("SetMember(%s) = %s, want %s", in, got, want)
		}
	}
}

// objects returns v and the values below it that are objects.
func objects(v Value) []Value {
	var out []Value
	if v.Kind() == '{' {
		out = append(out, v)
	}
	for m := range v.Members() {
		out = append(out, objects(m.Value)...)
	}
	for el := range v.Elements() {
		out = append(out, objects(el)...)
	}
	return out
}

// texts returns each member's text from its key to the end of its value.
func texts(obj Value) (out []string) {
	for m := range obj.Members() {
		out = append(out, string(obj.doc[m.Key.start:m.Value.end]))
	}
	return out
}

func elements(arr Value) (out []string) {
	for el := range arr.Elements() {
		out = append(out, string(el.Raw()))
	}
	return out
}

// checkEdits makes every kind of edit at an object of doc that r picks, and
// holds each result against what the other bytes have to be.
func checkEdits(t *testing.T, doc Raw, r *rand.Rand) {
	t.Helper()
	before := bytes.Clone(doc)
	all := objects(ValueOf(doc))
	if len(all) == 0 {
		return
	}
	at := r.IntN(len(all))
	obj := all[at]
	value := []Raw{Raw(`1`), Raw(`{"x":[]}`), Raw(`"\u0061"`)}[r.IntN(3)]

	// run returns the edited object in its new document, after checking that
	// nothing around it changed.
	run := func(what string, edit func(e *Edit)) Value {
		t.Helper()
		e := NewEdit(doc)
		edit(e)
		out := e.Bytes()
		if !bytes.Equal(doc, before) {
			t.Fatalf("%s changed its input", what)
		}
		if err := Check(out, Limits{Depth: 10000}, Lenient); err != nil {
			t.Fatalf("%s of %q at %q gives %q: %v", what, doc, obj.Raw(), out, err)
		}
		if !bytes.HasPrefix(out, doc[:obj.start]) || !bytes.HasSuffix(out, doc[obj.end:]) {
			t.Fatalf("%s of %q at %q gives %q: bytes around it changed", what, doc, obj.Raw(), out)
		}
		return Value{out, obj.start, len(out) - (len(doc) - obj.end), nil}
	}
	expect := func(what string, got Value, want []string) {
		t.Helper()
		if !slices.Equal(texts(got), want) {
			t.Fatalf("%s of %q gives %q, want the members %q", what, obj.Raw(), got.Raw(), want)
		}
	}

	was := texts(obj)
	added := `"new\n":` + string(value)
	expect("Add", run("Add", func(e *Edit) { e.Add(obj, "new\n", value) }), append(slices.Clip(was), added))
	expect("Add twice", run("Add twice", func(e *Edit) { e.Add(obj, "new\n", value); e.Add(obj, "z", Raw(`0`)) }),
		append(slices.Clip(was), added, `"z":0`))

	var members []Member
	for m := range obj.Members() {
		members = append(members, m)
	}
	if len(members) == 0 {
		return
	}
	i := r.IntN(len(members))
	m := members[i]
	replaced := slices.Clone(was)
	replaced[i] = string(doc[m.Key.start:m.Value.start]) + string(value)
	expect("Replace", run("Replace", func(e *Edit) { e.Replace(m.Value, value) }), replaced)

	name := m.Key.Str()
	first := slices.IndexFunc(members, func(m Member) bool { return m.Is(name) })
	set := slices.Clone(was)
	set[first] = string(doc[members[first].Key.start:members[first].Value.start]) + string(value)
	expect("Set", run("Set", func(e *Edit) { e.Set(obj, name, value) }), set)

	names := []string{name}
	for _, other := range members {
		if r.IntN(2) == 0 {
			names = append(names, other.Key.Str())
		}
	}
	var kept []string
	for j, other := range members {
		if !slices.Contains(names, other.Key.Str()) {
			kept = append(kept, was[j])
		}
	}
	expect("Remove", run("Remove", func(e *Edit) { e.Remove(obj, names...) }), kept)

	var arr Value
	for _, other := range members {
		if other.Value.Kind() == '[' {
			arr = other.Value
		}
	}
	var drops []bool
	var stay []string
	for _, el := range elements(arr) {
		drops = append(drops, r.IntN(2) == 0)
		if !drops[len(drops)-1] {
			stay = append(stay, el)
		}
	}
	removed := -1
	got := run("RemoveElements", func(e *Edit) {
		n := -1
		removed = e.RemoveElements(arr, func(Value) bool { n++; return drops[n] })
	})
	if !arr.Exists() {
		return
	}
	grown := (got.end - got.start) - (obj.end - obj.start)
	edited := Value{got.doc, arr.start, arr.end + grown, nil}
	if !slices.Equal(elements(edited), stay) || removed != len(drops)-len(stay) {
		t.Fatalf("RemoveElements of %q gives %q with %d removed, want %q", arr.Raw(), edited.Raw(), removed, stay)
	}
}

func TestEditLeavesOtherBytes(t *testing.T) {
	for seed := range uint64(3000) {
		checkEdits(t, newRandomJSON(seed, seed%2 == 0).object(5), rand.New(rand.NewPCG(seed, 2)))
	}
}

func FuzzEdit(f *testing.F) {
	for seed := range uint64(20) {
		f.Add([]byte(newRandomJSON(seed, true).object(3)), seed)
	}
	f.Add([]byte(` { "a" : [ 1 , 2 ] , "a" : { } } `), uint64(1))
	f.Fuzz(func(t *testing.T, doc []byte, seed uint64) {
		if Check(doc, Limits{Depth: 50}, Lenient) == nil {
			checkEdits(t, doc, rand.New(rand.NewPCG(seed, 2)))
		}
	})
}

func TestStrings(t *testing.T) {
	for want, texts := range map[string][]Revision{`[]`: nil, `["a\"b"]`: {`a"b`}, `["a","b"]`: {"a", "b"}} {
		if got := Strings(texts); string(got) != want {
			t.Errorf("%q: %s, want %s", texts, got, want)
		}
	}
}
