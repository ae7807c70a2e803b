package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// randomJSON makes documents with odd white space and escapes.
type randomJSON struct {
	*rand.Rand
	out        []byte
	duplicates bool // an object may have a key twice
}

func newRandomJSON(seed uint64, duplicates bool) *randomJSON {
	return &randomJSON{Rand: rand.New(rand.NewPCG(seed, 1)), duplicates: duplicates}
}

// object returns a new document whose root is an object.
func (r *randomJSON) object(depth int) Raw {
	r.out = nil
	r.space()
	r.members(depth)
	r.space()
	return r.out
}

func (r *randomJSON) space() {
	for r.IntN(4) == 0 {
		r.out = append(r.out, " \t\r\n"[r.IntN(4)])
	}
}

func (r *randomJSON) value(depth int) {
	kind := r.IntN(7)
	if depth == 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		r.out = append(r.out, []string{"true", "false", "null"}[r.IntN(3)]...)
	case 1:
		r.out = append(r.out, []string{"0", "-0", "17", "-1.50e+3", "9007199254740993", "1e400"}[r.IntN(6)]...)
	case 2, 3, 4:
		r.str("")
	case 5:
		r.members(depth)
	case 6:
		r.out = append(r.out, '[')
		r.space()
		for i := range r.IntN(4) {
			if i > 0 {
				r.out = append(r.out, ',')
				r.space()
			}
			r.value(depth - 1)
			r.space()
		}
		r.out = append(r.out, ']')
	}
}

func (r *randomJSON) members(depth int) {
	r.out = append(r.out, '{')
	r.space()
	for i := range r.IntN(5) {
		if i > 0 {
			r.out = append(r.out, ',')
			r.space()
		}
		suffix := ""
		if !r.duplicates {
			suffix = fmt.Sprint("#", i)
		}
		r.str(suffix)
		r.space()
		r.out = append(r.out, ':')
		r.space()
		r.value(max(0, depth-1))
		r.space()
	}
	r.out = append(r.out, '}')
}

func (r *randomJSON) str(suffix string) {
	pieces := []string{
		"a", "b", "name", "é", "世", "😀", "}", "]", ",", ":", " ", `\"`, `\\`, `\/`, `\n`, `\b\f\r\t`, `\u0061`, `\u00E9`, `\u0000`,
		`\ud83d\ude00`, `\uD83D`, `\ude00`, `\ud83d\ud83d\ude00`, `\ud83d\u0041`, `\ud83dA`, `\\u0061`, "\u2028", "\x7f",
	}
	r.out = append(r.out, '"')
	for range r.IntN(4) {
		r.out = append(r.out, pieces[r.IntN(len(pieces))]...)
	}
	r.out = append(append(r.out, suffix...), '"')
}

// stdMember is a member as encoding/json reads it.
type stdMember struct {
	key   string
	value json.RawMessage
}

func stdMembers(t *testing.T, obj []byte) []stdMember {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(obj))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	var out []stdMember
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		m := stdMember{key: key.(string)}
		if err := d.Decode(&m.value); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// agree fails unless encoding/json reads want, one valid value, as v does.
func agree(t *testing.T, v Value, want []byte) {
	t.Helper()
	if !bytes.Equal(v.Raw(), want) {
		t.Fatalf("Raw = %q, want %q", v.Raw(), want)
	}
	elements, members := 0, 0
	for range v.Elements() {
		elements++
	}
	for range v.Members() {
		members++
	}
	switch want[0] {
	case '{':
		std := stdMembers(t, want)
		if v.Kind() != '{' || members != len(std) || elements != 0 {
			t.Fatalf("%q: kind %q, %d members, %d elements; want %d members", want, v.Kind(), members, elements, len(std))
		}
		i, first := 0, map[string]json.RawMessage{}
		for m := range v.Members() {
			if key, ok := m.Key.Text(); !ok || key != std[i].key || !m.Is(key) || m.Is(key+"x") {
				t.Fatalf("%q: key %d is %q, want %q", want, i, key, std[i].key)
			}
			if _, ok := first[std[i].key]; !ok {
				first[std[i].key] = std[i].value
			}
			agree(t, m.Value, std[i].value)
			i++
		}
		for key, value := range first {
			if got := v.Get(key).Raw(); !bytes.Equal(got, value) {
				t.Fatalf("%q: Get(%q) = %q, want %q", want, key, got, value)
			}
		}
	case '[':
		var std []json.RawMessage
		if err := json.Unmarshal(want, &std); err != nil {
			t.Fatal(err)
		}
		if v.Kind() != '[' || elements != len(std) || members != 0 {
			t.Fatalf("%q: kind %q, %d elements, %d members", want, v.Kind(), elements, members)
		}
		i := 0
		for el := range v.Elements() {
			agree(t, el, std[i])
			i++
		}
	case '"':
		var std string
		if err := json.Unmarshal(want, &std); err != nil {
			t.Fatal(err)
		}
		if got, ok := v.Text(); !ok || got != std || v.Str() != std || !v.IsString(std) || v.IsString(std+"x") || v.Kind() != '"' {
			t.Fatalf("%q: Text = %q, want %q", want, got, std)
		}
	case 't', 'f', 'n':
		if v.Kind() != want[0] || v.Bool() != (want[0] == 't') {
			t.Fatalf("%q: kind %q, Bool %v", want, v.Kind(), v.Bool())
		}
	default:
		var std int64
		n, ok := v.Int()
		if err := json.Unmarshal(want, &std); v.Kind() != '0' || (err == nil && (!ok || n != std)) {
			t.Fatalf("%q: kind %q, Int = %d, %v", want, v.Kind(), n, ok)
		}
	}
}

func TestValueAgreesWithEncodingJSON(t *testing.T) {
	for seed := range uint64(3000) {
		doc := newRandomJSON(seed, seed%2 == 0).object(5)
		if err := Check(doc, Limits{}, Lenient); err != nil {
			t.Fatalf("seed %d: %q: %v", seed, doc, err)
		}
		agree(t, ValueOf(doc), bytes.Trim(doc, " \t\r\n"))
	}
}

func TestValueAbsent(t *testing.T) {
	for name, v := range map[string]Value{
		"zero":               {},
		"of nothing":         ValueOf(nil),
		"of space":           ValueOf(Raw(" \n")),
		"no such member":     ValueOf(Raw(`{"a":1}`)).Get("b"),
		"below no such":      ValueOf(Raw(`{"a":1}`)).Get("b", "c"),
		"member of a number": ValueOf(Raw(`1`)).Get("b"),
	} {
		t.Run(name, func(t *testing.T) {
			for range v.Members() {
				t.Error("has members")
			}
			for range v.Elements() {
				t.Error("has elements")
			}
			_, isText := v.Text()
			_, isInt := v.Int()
			if v.Exists() || v.Kind() != 0 || v.Raw() != nil || v.IsString("") || v.Str() != "" || isText || isInt || v.Bool() {
				t.Errorf("%+v is not absent", v)
			}
		})
	}
	if empty := ValueOf(Raw(`""`)); !empty.Exists() || !empty.IsString("") {
		t.Error("the empty string counts as absent")
	}
}

func TestValueFindsEscapedKeys(t *testing.T) {
	doc := ValueOf(Raw(`{"n":0,"na\u006d":1,"na\u006de":{"\ud83d\ude00":[true]},"name":2}`))
	if got := doc.Get("name", "😀").Raw(); string(got) != "[true]" {
		t.Errorf("got %q", got)
	}
	// Raw must not let an append run over what follows.
	v := doc.Get("n").Raw()
	_ = append(v, "XXXX"...)
	if got := doc.Get("na\u006d").Raw(); string(got) != "1" {
		t.Errorf("an append to Raw changed the document: %s", doc.Raw())
	}
}

func TestValueIteratorsStop(t *testing.T) {
	n := 0
	for range ValueOf(Raw(`{"a":1,"b":2}`)).Members() {
		n++
		break
	}
	for range ValueOf(Raw(`[1,2]`)).Elements() {
		n++
		break
	}
	if n != 2 {
		t.Errorf("%d rounds, want 2", n)
	}
}

func TestValueInt(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"-0", 0, true},
		{"-0.0", 0, true},
		{"0e5", 0, true},
		{"0.000e-99999999999999999999", 0, true},
		{"0e99999999999999999999", 0, true},
		{"17", 17, true},
		{"1.0", 1, true},
		{"-1.50e1", -15, true},
		{"1e3", 1000, true},
		{"1E+3", 1000, true},
		{"1000e-3", 1, true},
		{"1200.0e-2", 12, true},
		{"0.1e19", 1e18, true},
		{"0.000000000000000000000001e24", 1, true},
		{"9007199254740992", 1 << 53, true},
		{"9007199254740993", 1<<53 + 1, true},
		{"9007199254740993.0", 1<<53 + 1, true},
		{"900719925474099.3e1", 1<<53 + 1, true},
		{"9223372036854775807", math.MaxInt64, true},
		{"9223372036854775807.0", math.MaxInt64, true},
		{"-9223372036854775808", math.MinInt64, true},
		{"-922337203685477580.8e1", math.MinInt64, true},
		{"9223372036854775808", 0, false},
		{"-9223372036854775809", 0, false},
		{"1e18", 1e18, true},
		{"1e19", 0, false},
		{"0.5", 0, false},
		{"1e-1", 0, false},
		{"-1.5", 0, false},
		{"4503599627370496.3", 0, false}, // a float64 would round the fraction away
		{"0.99999999999999999999", 0, false},
		{"1e400", 0, false},
		{"1e-400", 0, false},
		{"1e999999999999999999999", 0, false},
		{"-1e-999999999999999999999", 0, false},
		{"1e9223372036854775807", 0, false},
		{"1.5e-9223372036854775808", 0, false},
		{strings.Repeat("9", 1<<20), 0, false},
		{"1" + strings.Repeat("0", 1<<20) + "e-1048576", 1, true},
		{`"1"`, 0, false},
		{"true", 0, false},
		{"null", 0, false},
		{"[1]", 0, false},
	} {
		name := tc.in[:min(len(tc.in), 40)]
		if err := Check([]byte(tc.in), Limits{}, Strict); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, ok := ValueOf(Raw(tc.in)).Int(); ok != tc.ok || (ok && got != tc.want) {
			t.Errorf("Int(%s) = %d, %v; want %d, %v", name, got, ok, tc.want, tc.ok)
		}
	}
}

// walk reads everything of v that can be read.
func walk(v Value) {
	v.Raw()
	v.Text()
	v.Int()
	v.Bool()
	v.IsString("name")
	for m := range v.Members() {
		m.Is("name")
		m.Key.Text()
		walk(m.Value)
	}
	for el := range v.Elements() {
		walk(el)
	}
}

// FuzzValue holds the reading of checked documents against encoding/json, and
// looks for reads out of bounds in what is valid save for its UTF-8.
// A text is compared as it reads, wherever its escapes and its differences are, and the end of a string is found at every length.
func TestIsStringAtAnyPlace(t *testing.T) {
	for _, tt := range []struct {
		text, s string
		is      bool
	}{
		{`name`, "name", true}, {`\u006eame`, "name", true}, {`n\u0061me`, "name", true}, {`nam\u0065`, "name", true},
		{`name\u0065`, "name", false}, {`names`, "name", false}, {`nape\n`, "name", false}, {`a\\b`, `a\b`, true}, {`a\u005cb`, `a\b`, true},
		{`a\\b`, `a\\b`, false}, {`\n`, "\n", true}, {`x`, "", false}, {``, "", true},
	} {
		for n := range 70 {
			pad := strings.Repeat("p", n)
			doc := Raw(`{"` + pad + tt.text + `":1,"z":"\\"}`)
			v := ValueOf(doc)
			if got := v.Get(pad + tt.s).Exists(); got != tt.is {
				t.Fatalf("%s: %v for %q", doc, got, pad+tt.s)
			}
			if !v.Get("z").IsString(`\`) {
				t.Fatalf("%s: the member after it is not found", doc)
			}
		}
	}
}

func TestAt(t *testing.T) {
	v := ValueOf(Raw(`{"a":{"b/c":{"~":1}},"":2,"list":[3]}`))
	for pointer, want := range map[string]string{
		"": string(v.Raw()), "/a/b~1c/~0": "1", "/": "2", "/a/b/c": "", "/list/0": "", "/a/none/x": "", "/list": "[3]",
	} {
		if got := string(v.At(pointer).Raw()); got != want {
			t.Errorf("%q: %q, want %q", pointer, got, want)
		}
	}
}

func FuzzValue(f *testing.F) {
	for seed := range uint64(20) {
		f.Add([]byte(newRandomJSON(seed, true).object(3)))
	}
	for _, s := range []string{`"\ud83d"`, `"\ud83d\u"`, `"\\"`, `[[],{}]`, ` 1 `, `-1e-0`, "\"\xff\\\"\xc0\"", `{"":{"":""}}`, `"\ud83d\ude0"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if Check(data, Limits{Depth: 50}, Lenient) == nil {
			agree(t, ValueOf(data), bytes.Trim(data, " \t\r\n"))
		}
		if jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) {
			walk(ValueOf(bytes.Clone(data)))
		}
	})
}
