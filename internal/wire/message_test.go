package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseAccepts(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		want Message
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`,
			Message{ID: IDOf("1"), Method: "tools/call", Params: Raw(`{"name":"x"}`)}},
		{"request without params", `{"jsonrpc":"2.0","id":"a","method":"ping"}`,
			Message{ID: IDOf(`"a"`), Method: "ping"}},
		{"notification", `{"method":"notifications/initialized","jsonrpc":"2.0"}`,
			Message{Method: "notifications/initialized"}},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{}}`,
			Message{ID: IDOf("1"), Result: Raw(`{}`)}},
		{"result of any type", `{"jsonrpc":"2.0","id":1,"result":null}`,
			Message{ID: IDOf("1"), Result: Raw(`null`)}},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":[1],"more":true}}`,
			Message{ID: IDOf("1"), Error: &Error{Code: -32601, Message: "no", Data: Raw(`[1]`),
				Raw: Raw(`{"code":-32601,"message":"no","data":[1],"more":true}`)}}},
		{"error with a null id", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}`,
			Message{Error: &Error{Code: -32700, Raw: Raw(`{"code":-32700,"message":""}`)}}},
		{"error without an id", `{"jsonrpc":"2.0","error":{"code":-32700,"message":""}}`,
			Message{Error: &Error{Code: -32700, Raw: Raw(`{"code":-32700,"message":""}`)}}},
		{"space all over", " {\n\"jsonrpc\" : \"2.0\" ,\t\"id\" :1\r\n, \"method\":\"ping\" , \"params\" : { } } \n",
			Message{ID: IDOf("1"), Method: "ping", Params: Raw(`{ }`)}},
		{"escapes in keys and method", `{"json\u0072pc":"2\u002e0","\u0069d":1,"meth\u006fd":"tools\/call","p\u0061rams":{"n\u0061me":"x"}}`,
			Message{ID: IDOf("1"), Method: "tools/call", Params: Raw(`{"n\u0061me":"x"}`)}},
		{"unknown members", `{"trace":{"a":1},"jsonrpc":"2.0","id":1,"method":"ping","x\u0079": 2}`,
			Message{ID: IDOf("1"), Method: "ping", Extra: `"trace":{"a":1},"x\u0079": 2`}},
		{"escaped lone surrogates", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"text":"\ud83d","\udc00":1}}`,
			Message{ID: IDOf("1"), Method: "x", Params: Raw(`{"text":"\ud83d","\udc00":1}`)}},
		{"other cases in members that are not read", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"Name":1,"URI":2,"ID":3},"_meta":{"ProgressToken":1,"Name":2},"inputSchema":{"Arguments":{}},"other":{"_Meta":1}}}`,
			Message{ID: IDOf("1"), Method: "tools/call", Params: Raw(`{"name":"x","arguments":{"Name":1,"URI":2,"ID":3},"_meta":{"ProgressToken":1,"Name":2},"inputSchema":{"Arguments":{}},"other":{"_Meta":1}}`)}},
		{"one key in several objects", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"id":1,"a":{"id":1},"b":[{"id":1},{"id":1}]}}`,
			Message{ID: IDOf("1"), Method: "x", Params: Raw(`{"id":1,"a":{"id":1},"b":[{"id":1},{"id":1}]}`)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for side, parse := range parsers {
				got, err := parse([]byte(tc.in), Limits{})
				if err != nil {
					t.Fatalf("%s: %v", side, err)
				}
				if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b ID) bool { return a == b })); diff != "" {
					t.Errorf("%s (-want +got):\n%s", side, diff)
				}
			}
		})
	}
}

var parsers = map[string]func([]byte, Limits) (Message, error){"client": Parse, "upstream": ParseUpstream}

func TestParseRefuses(t *testing.T) {
	const both = ""
	for _, tc := range []struct {
		name string
		only string // the side that refuses; the other accepts
		in   string
		want string
		id   string // what the message must still hold, for the answer
	}{
		// Not one JSON value.
		{"nothing", both, ``, "parse error: unexpected EOF (-32700)", ""},
		{"space", both, ` `, "parse error: unexpected EOF after offset 1 (-32700)", ""},
		{"cut off", both, `{"jsonrpc":"2.0","id":1`, "parse error: unexpected EOF after offset 23 (-32700)", ""},
		{"trailing value", both, `{"jsonrpc":"2.0","method":"x"} {}`, "parse error: invalid character '{' after top-level value after offset 31 (-32700)", ""},
		{"trailing comma", both, `{"jsonrpc":"2.0",}`, `parse error: invalid character '}' at start of string (expecting '"') after offset 17 (-32700)`, ""},
		{"trailing NUL", both, "{}\x00", `parse error: invalid character '\x00' after top-level value after offset 2 (-32700)`, ""},
		{"byte order mark", both, "\ufeff{}", "parse error: the text begins with a byte order mark (BOM, the bytes EF BB BF); JSON is sent without one (-32700)", ""},
		{"no quotes", both, `{jsonrpc:"2.0"}`, `parse error: invalid character 'j' at start of string (expecting '"') after offset 1 (-32700)`, ""},
		{"leading zero", both, `{"id":01}`, "parse error: invalid character '1' after object value (expecting ',' or '}') after offset 7 (-32700)", ""},
		{"raw line break in a string", both, "{\"id\":\"a\nb\"}", `parse error: invalid character '\n' in string (expecting non-control character) within "/id" after offset 8 (-32700)`, ""},
		{"bad UTF-8", "client", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", "parse error: invalid UTF-8 at byte 34 (-32700)", "1"},
		{"bad UTF-8 in a result", "upstream", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}", "parse error: invalid UTF-8 at byte 39 (-32700)", "1"},
		{"huge id", both, `{"jsonrpc":"2.0","method":"x","id":"` + strings.Repeat("x", maxID) + `"}`, "invalid request: the id is longer than 4096 bytes (-32600)", ""},
		{"bad UTF-8", "upstream", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", "parse error: invalid UTF-8 at byte 34 (-32700)", ""},
		{"raw surrogate", both, "{\"a\":\"\xed\xa0\x80\"}", "parse error: invalid UTF-8 at byte 6 (-32700)", ""},
		{"overlong UTF-8", both, "{\"a\":\"é\xc0\xaf\"}", "parse error: invalid UTF-8 at byte 8 (-32700)", ""},
		{"too deep at once", both, `[[[[]]]]`, "parse error: nested deeper than 3 levels at byte 3 (-32700)", ""},
		{"too deep", "client", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[[]]}}`, "parse error: nested deeper than 3 levels at byte 52 (-32700)", "1"},
		{"too deep", "upstream", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[[]]}}`, "parse error: nested deeper than 3 levels at byte 52 (-32700)", ""},

		// Duplicate keys.
		{"duplicate in the envelope", "client", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, `parse error: duplicate object member name "method" (-32700)`, "1"},
		{"duplicate in params", "client", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","n\u0061me":"y"}}`, `parse error: duplicate object member name "name" within "/params" (-32700)`, "1"},
		{"duplicate in arguments", "client", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":{"k":1,"k":1}}}`, `parse error: duplicate object member name "k" within "/params/a" (-32700)`, "1"},
		{"duplicate in the envelope", "upstream", `{"jsonrpc":"2.0","id":1,"result":{},"r\u0065sult":{}}`, `invalid request: the member "result" stands twice (-32600)`, "1"},
		{"duplicate id", "upstream", `{"jsonrpc":"2.0","id":1,"result":{},"id":2}`, `invalid request: the member "id" stands twice (-32600)`, ""},
		{"duplicate unknown member", "upstream", `{"jsonrpc":"2.0","id":1,"result":{},"x":1,"x":2}`, `invalid request: the member "x" stands twice (-32600)`, "1"},

		// Case variants.
		{"case in the envelope", both, `{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}`, `invalid request: the member "Method" differs from a known one only in case (-32600)`, "1"},
		{"case in place of the known one", both, `{"jsonrpc":"2.0","ID":1,"method":"a"}`, `invalid request: the member "ID" differs from a known one only in case (-32600)`, ""},
		{"long s in the envelope", both, `{"jsonrpc":"2.0","id":1,"reſult":{}}`, `invalid request: the member "reſult" differs from a known one only in case (-32600)`, "1"},
		{"escaped case in the envelope", both, `{"jsonrpc":"2.0","id":1,"method":"a","\u0050arams":{}}`, `invalid request: the member "Params" differs from a known one only in case (-32600)`, "1"},
		{"case in params", "client", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","Name":"y"}}`, `invalid request: params has a member "Name", which differs from a known one only in case (-32600)`, "1"},
		{"long s in params", "client", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"argumentſ":{}}}`, `invalid request: params has a member "argumentſ", which differs from a known one only in case (-32600)`, "1"},
		{"Kelvin sign in params", "client", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"progressTo\u212aen\":1}}", "invalid request: params has a member \"progressTo\u212aen\", which differs from a known one only in case (-32600)", "1"},
		{"escaped Kelvin sign in params", "client", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"progressTo\u212aen":1}}`, "invalid request: params has a member \"progressTo\u212aen\", which differs from a known one only in case (-32600)", "1"},
		{"_META in params", "client", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_META":{}}}`, `invalid request: params has a member "_META", which differs from a known one only in case (-32600)`, "1"},
		{"case in ref", "client", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"ref":{"name":"x","NAME":"y"}}}`, `invalid request: params.ref has a member "NAME", which differs from a known one only in case (-32600)`, "1"},

		// No envelope.
		{"batch", both, `[{"jsonrpc":"2.0","id":1,"method":"x"}]`, "invalid request: batches are not allowed here (-32600)", ""},
		{"string", both, `"x"`, "invalid request: the message is not an object (-32600)", ""},
		{"null", both, `null`, "invalid request: the message is not an object (-32600)", ""},
		{"empty object", both, `{}`, `invalid request: "jsonrpc" must be "2.0" (-32600)`, ""},
		{"no version", both, `{"id":1,"method":"x"}`, `invalid request: "jsonrpc" must be "2.0" (-32600)`, "1"},
		{"version is a number", both, `{"jsonrpc":2.0,"id":1,"method":"x"}`, `invalid request: "jsonrpc" must be "2.0" (-32600)`, "1"},
		{"version 1.0", both, `{"jsonrpc":"1.0","id":1,"method":"x"}`, `invalid request: "jsonrpc" must be "2.0" (-32600)`, "1"},
		{"null id of a request", both, `{"jsonrpc":"2.0","id":null,"method":"x"}`, "invalid request: the id is null; it must be a string or a number (-32600)", ""},
		{"null id of a result", both, `{"jsonrpc":"2.0","id":null,"result":{}}`, "invalid request: the id is null; it must be a string or a number (-32600)", ""},
		{"object id", both, `{"jsonrpc":"2.0","id":{},"method":"x"}`, "invalid request: the id must be a string or a number (-32600)", ""},
		{"array id", both, `{"jsonrpc":"2.0","id":[1],"method":"x"}`, "invalid request: the id must be a string or a number (-32600)", ""},
		{"true id", both, `{"jsonrpc":"2.0","id":true,"method":"x"}`, "invalid request: the id must be a string or a number (-32600)", ""},
		{"method is a number", both, `{"jsonrpc":"2.0","id":1,"method":5}`, "invalid request: the method must be a string that is not empty (-32600)", "1"},
		{"method is empty", both, `{"jsonrpc":"2.0","id":1,"method":""}`, "invalid request: the method must be a string that is not empty (-32600)", "1"},
		{"params is an array", both, `{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}`, "invalid request: params must be an object (-32600)", "1"},
		{"params is null", both, `{"jsonrpc":"2.0","id":1,"method":"x","params":null}`, "invalid request: params must be an object (-32600)", "1"},
		{"method and result", both, `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`, "invalid request: a message with a method has no result and no error (-32600)", "1"},
		{"method and error", both, `{"jsonrpc":"2.0","id":1,"method":"x","error":{}}`, "invalid request: a message with a method has no result and no error (-32600)", "1"},
		{"params without method", both, `{"jsonrpc":"2.0","id":1,"params":{},"result":{}}`, "invalid request: params without a method (-32600)", "1"},
		{"result and error", both, `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, "invalid request: a message has either a method, a result or an error (-32600)", "1"},
		{"neither", both, `{"jsonrpc":"2.0","id":1}`, "invalid request: a message has either a method, a result or an error (-32600)", "1"},
		{"result without id", both, `{"jsonrpc":"2.0","result":{}}`, "invalid request: a result needs an id (-32600)", ""},
		{"error is a string", both, `{"jsonrpc":"2.0","id":1,"error":"no"}`, "invalid request: the error must be an object with an integer code and a message (-32600)", "1"},
		{"error without message", both, `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, "invalid request: the error must be an object with an integer code and a message (-32600)", "1"},
		{"error with a fraction for a code", both, `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}`, "invalid request: the error must be an object with an integer code and a message (-32600)", "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lim := Limits{Depth: 3}
			for side, parse := range parsers {
				m, err := parse([]byte(tc.in), lim)
				if tc.only != both && side != tc.only {
					continue
				}
				if err == nil {
					t.Fatalf("%s accepts %q", side, tc.in)
				}
				if err.Error() != tc.want {
					t.Errorf("%s:\n got %s\nwant %s", side, err, tc.want)
				}
				if e, ok := errors.AsType[*Error](err); !ok || e.Raw != nil || e.Data != nil {
					t.Errorf("%s: the error is %#v, not a plain *Error", side, err)
				}
				if m.ID.String() != tc.id {
					t.Errorf("%s: the message holds the id %q, want %q", side, m.ID, tc.id)
				}
			}
		})
	}
}

// A variant of a member that the gateway reads is refused even where the member
// itself is absent, and the member itself passes, escaped or not.
func TestParseKnowsWhatIsRead(t *testing.T) {
	request := func(params string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":` + params + `}`)
	}
	for place, names := range map[string][]string{
		`{"%s":{}}`: {"name", "uri", "arguments", "cursor", "ref", "level", "_meta", "taskId", "requestId", "progressToken",
			"inputResponses", "requestState", "protocolVersion", "capabilities", "clientInfo", "notifications"},
		`{"ref":{"%s":{}}}`: {"type", "name", "uri"},
	} {
		for _, name := range names {
			escaped := fmt.Sprintf(`\u%04x`, name[0]) + name[1:]
			for _, same := range []string{name, escaped} {
				if _, err := Parse(request(fmt.Sprintf(place, same)), Limits{}); err != nil {
					t.Errorf("%s in %s: %v", same, place, err)
				}
			}
			if _, err := Parse(request(fmt.Sprintf(place, strings.ToUpper(name))), Limits{}); err == nil {
				t.Errorf("%s in %s is accepted", strings.ToUpper(name), place)
			}
		}
	}
}

// An upstream may send messages that only a client is refused.
func TestParseUpstreamIsLenientBelowTheEnvelope(t *testing.T) {
	for _, tc := range []struct {
		name, in   string
		duplicates bool
	}{
		{"duplicate deep in a result", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"k":1,"k":2}]}}`, true},
		{"duplicate in the result", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"\u0061":2}}`, true},
		{"duplicate in an unknown member", `{"jsonrpc":"2.0","id":1,"result":{},"x":{"a":1,"a":2}}`, true},
		{"case variant in params", `{"jsonrpc":"2.0","method":"x","params":{"Name":1,"name":2}}`, false},
		{"none", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"A":2}}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := ParseUpstream([]byte(tc.in), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if m.DeepDuplicates != tc.duplicates {
				t.Errorf("DeepDuplicates = %v, want %v", m.DeepDuplicates, tc.duplicates)
			}
			if again, err := ParseUpstream(m.Append(nil), Limits{}); err != nil || again.DeepDuplicates != tc.duplicates {
				t.Errorf("appended and parsed again: %+v, %v", again, err)
			}
		})
	}
}

func TestParseDepth(t *testing.T) {
	nested := func(levels int) []byte { // levels counts the envelope and params
		return []byte(`{"jsonrpc":"2.0","method":"x","params":{"a":` +
			strings.Repeat("[", levels-2) + strings.Repeat("]", levels-2) + `}}`)
	}
	for _, tc := range []struct {
		lim    Limits
		levels int
		ok     bool
	}{
		{Limits{}, DefaultDepth, true},
		{Limits{}, DefaultDepth + 1, false},
		{Limits{Depth: 10}, 10, true},
		{Limits{Depth: 10}, 11, false},
		{Limits{}, 1 << 20, false}, // must not exhaust the stack
	} {
		_, err := Parse(nested(tc.levels), tc.lim)
		if (err == nil) != tc.ok {
			t.Errorf("%d levels with a bound of %d: %v", tc.levels, tc.lim.depth(), err)
		}
	}
	// Brackets side by side and in strings are no depth.
	flat := `{"jsonrpc":"2.0","method":"x","params":{"a":[` + strings.Repeat(`[],{},`, 50) + `"` + strings.Repeat(`[{\"\\`, 50) + `"]}}`
	if _, err := Parse([]byte(flat), Limits{Depth: 4}); err != nil {
		t.Errorf("a flat message: %v", err)
	}
}

func TestIDsKeepTheirLetters(t *testing.T) {
	ids := []string{
		`1`, `1.0`, `1e0`, `1E+0`, `-0`, `0`, `0.5`, `"1"`, `""`, `"\u0031"`, `" 1"`, `9007199254740993`, `-9007199254740993`,
		`123456789012345678901234567890`, `1e400`, `"a\/b"`, `"\ud83d"`, `"é"`, `"\u00e9"`,
	}
	seen := make(map[ID]string)
	for _, id := range ids {
		in := `{"jsonrpc":"2.0","id":` + id + `,"method":"x"}`
		m, err := Parse([]byte(in), Limits{})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if m.ID.String() != id || !m.IsRequest() || m.IsNotification() || m.IsResponse() {
			t.Errorf("id %s became %s", id, m.ID)
		}
		if out := string(m.Append(nil)); out != in {
			t.Errorf("appended as %s, want %s", out, in)
		}
		if other, ok := seen[m.ID]; ok {
			t.Errorf("%s and %s are one id", id, other)
		}
		seen[m.ID] = id
	}
	if id := (ID{}); !id.IsZero() || string(id.Append(nil)) != "null" {
		t.Error("the zero ID must be absent, and null where one has to stand")
	}
}

func TestAppend(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   Message
		want string
	}{
		{"request", Message{ID: IDOf("1"), Method: `a"b`, Params: Raw(`{"n": 1}`)}, `{"jsonrpc":"2.0","id":1,"method":"a\"b","params":{"n": 1}}`},
		{"notification", Message{Method: "n"}, `{"jsonrpc":"2.0","method":"n"}`},
		{"result", Message{ID: IDOf(`"x"`), Result: Raw(`{}`)}, `{"jsonrpc":"2.0","id":"x","result":{}}`},
		{"error made here", Message{ID: IDOf("1"), Error: Errorf(CodeInternal, "no %s", "luck").WithData(Raw(`{"a":1}`))},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no luck","data":{"a":1}}}`},
		{"error of a peer", Message{ID: IDOf("1"), Error: &Error{Code: 1, Message: "m", Raw: Raw(`{"x":0,"code":1e0,"message":"m"}`)}},
			`{"jsonrpc":"2.0","id":1,"error":{"x":0,"code":1e0,"message":"m"}}`},
		{"error of a peer with other data", Message{ID: IDOf("1"), Error: (&Error{Code: 1, Message: "m", Raw: Raw(`{"x":0}`)}).WithData(Raw(`2`))},
			`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":2}}`},
		{"error without id", Message{Error: Errorf(CodeParse, "p")}, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"p"}}`},
		{"unknown members", Message{ID: IDOf("1"), Result: Raw(`1`), Extra: `"a": [ 1 ],"b":2`}, `{"jsonrpc":"2.0","id":1,"result":1,"a": [ 1 ],"b":2}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(tc.in.Append([]byte("head "))); got != "head "+tc.want {
				t.Errorf("\n got %s\nwant head %s", got, tc.want)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	for in, want := range map[string][]string{
		`[]`:                        nil,
		` [ {"a":[1,2]} , 2,"]" ] `: {`{"a":[1,2]}`, `2`, `"]"`},
	} {
		parts, ok := Split([]byte(in), 3)
		var got []string
		for _, p := range parts {
			got = append(got, string(p))
		}
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("Split(%s) ok=%v (-want +got):\n%s", in, ok, diff)
		}
	}
	if _, ok := Split([]byte(`{"a":[]}`), 3); ok {
		t.Error("an object counts as a batch")
	}
	if parts, _ := Split([]byte(`[`+strings.Repeat("0,", 1000)+`0]`), 3); len(parts) != 4 {
		t.Errorf("%d parts of a batch of 1001, want one more than 3", len(parts))
	}
}
