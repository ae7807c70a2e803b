package wire

import (
	"bytes"
	"strings"
	"testing"
)

// A value that knows its long strings is read like one that does not.
func FuzzLong(f *testing.F) {
	for seed := range uint64(20) {
		f.Add([]byte(newRandomJSON(seed, true).object(3)), byte(seed))
	}
	f.Add([]byte(`{"a":["x","y"],"xx":"x","b":{"x":"x"},"c":["x","x","x","x","x","x","x","x","x"]}`), byte('x'))
	f.Fuzz(func(t *testing.T, data []byte, letter byte) {
		if letter < 'a' || letter > 'z' {
			letter = 'x'
		}
		// Strings that contain the letter become long.
		data = bytes.ReplaceAll(data, []byte{letter}, bytes.Repeat([]byte{letter}, longString))
		ok, spans := accepts(data, 50, Lenient)
		if !ok {
			return
		}
		long := spans.of(data)
		same(t, long.ValueOf(data), ValueOf(data))
		for v := range long.ValueOf(data).Members() {
			if part := spans.of(data).within(v.Value); part != nil {
				same(t, part.ValueOf(v.Value.Raw()), v.Value)
			}
		}
	})
}

// same fails unless two values have the same text and the same parts.
func same(t *testing.T, a, b Value) {
	t.Helper()
	if !bytes.Equal(a.Raw(), b.Raw()) {
		t.Fatalf("%.200q instead of %.200q", a.Raw(), b.Raw())
	}
	var parts [2][]Value
	for i, v := range []Value{a, b} {
		for m := range v.Members() {
			parts[i] = append(parts[i], m.Key, m.Value)
		}
		for el := range v.Elements() {
			parts[i] = append(parts[i], el)
		}
	}
	if len(parts[0]) != len(parts[1]) {
		t.Fatalf("%d parts instead of %d", len(parts[0]), len(parts[1]))
	}
	for i := range parts[0] {
		same(t, parts[0][i], parts[1][i])
	}
}

func TestMessageKnowsItsLongStrings(t *testing.T) {
	text := strings.Repeat(`resource \"x\" `, longString)
	for _, data := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text + `"}],"isError":false}}`,
		` {"x":"` + text + `","result":{"content":["` + text + `"]},"jsonrpc":"2.0","id":1 }`,
	} {
		m, err := ParseUpstream([]byte(data), Limits{})
		if err != nil || m.Long == nil {
			t.Fatalf("%v, %v", m.Long, err)
		}
		v := m.Long.ValueOf(m.Result)
		same(t, v, ValueOf(m.Result))
		if v.MayContain("resource") || !ValueOf(m.Result).MayContain("resource") || !v.MayContain("content") {
			t.Error("the search does not leave out long strings alone")
		}
		edited := SetMember(m.Result, "a", Raw("1"))
		same(t, m.Long.ValueOf(edited), ValueOf(edited))
	}
	m, err := ParseUpstream(textResultOf(300), Limits{})
	if err != nil || m.Long != nil {
		t.Errorf("short strings: %v, %v", m.Long, err)
	}
}
