package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sameMessage compares messages by what they say.
var sameMessage = cmp.Comparer(func(a, b ID) bool { return a == b })

// FuzzParse holds accepted messages against encoding/json, and looks for
// messages that change when they are written and read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"Name":1}}}`,
		`{"jsonrpc":"2.0","\u0069d":"\ud83d","method":"a\/b","x":[1,{"y":2}], "z" : null}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-3.2e4,"message":"m","data":null,"m":1}}`,
		`{"jsonrpc":"2.0","method":"n","params":{"ref":{"Name":1}}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
		"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}",
		`{"jsonrpc":"2.0","method":"n","method":"m"}`,
	} {
		f.Add([]byte(s))
	}
	f.Add(requestOf(300))
	f.Add(textResultOf(300))
	f.Add(listResultOf(300))
	f.Fuzz(func(t *testing.T, data []byte) {
		lim := Limits{Depth: 100}
		for side, parse := range parsers {
			m, err := parse(data, lim)
			if err != nil {
				e, ok := errors.AsType[*Error](err)
				if !ok || (e.Code != CodeParse && e.Code != CodeInvalidRequest) {
					t.Fatalf("%s: %q gives the error %#v", side, data, err)
				}
				continue
			}
			againstStd(t, data, m)

			out := m.Append(nil)
			again, err := parse(out, lim)
			if diff := cmp.Diff(m, again, sameMessage); err != nil || diff != "" {
				t.Fatalf("%s: %q written as %q: %v (-first +again):\n%s", side, data, out, err, diff)
			}
			if twice := again.Append(nil); !bytes.Equal(out, twice) {
				t.Fatalf("%s: written as %q, then as %q", side, out, twice)
			}
		}
		if m, err := Parse(data, lim); err == nil { // strict accepts nothing that lenient refuses
			againstRemove(t, m.Params)
			if m, err := ParseUpstream(data, lim); err != nil || m.DeepDuplicates {
				t.Fatalf("%q: accepted from a client, from an upstream %v, %v", data, err, m.DeepDuplicates)
			}
		}
	})
}

// againstRemove fails unless an object without one member, of which it has only one, is what an
// Edit makes of it.
func againstRemove(t *testing.T, object Raw) {
	t.Helper()
	for mb := range ValueOf(object).Members() {
		name := mb.Key.Str()
		e := NewEdit(object)
		e.Remove(e.Root(), name)
		value, before, after := ValueOf(object).Cut(name)
		if got, want := string(before)+string(after), string(e.Bytes()); got != want || string(value.Raw()) != string(mb.Value.Raw()) {
			t.Fatalf("%s without %q: %s, and the member %s; an Edit makes %s of it", object, name, got, value.Raw(), want)
		}
	}
}

// againstStd fails unless encoding/json, which folds case and takes the last of
// two members, reads of an accepted message what m says: no peer may read
// another message than the gateway did.
func againstStd(t *testing.T, data []byte, m Message) {
	t.Helper()
	var std struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
		Error   *struct {
			Code    json.RawMessage `json:"code"`
			Message json.RawMessage `json:"message"`
		} `json:"error"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&std); err != nil {
		t.Fatalf("%q: encoding/json refuses it: %v", data, err)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("%q: encoding/json finds more after it: %v", data, err)
	}
	id := string(std.ID)
	if id == "null" {
		id = ""
	}
	if std.JSONRPC != "2.0" || id != m.ID.String() || std.Method != m.Method || !bytes.Equal(std.Params, m.Params) || !bytes.Equal(std.Result, m.Result) {
		t.Fatalf("%q: read as %+v, by encoding/json as %+v", data, m, std)
	}
	if (std.Error != nil) != (m.Error != nil) {
		t.Fatalf("%q: error %v, by encoding/json %v", data, m.Error, std.Error)
	}
}
