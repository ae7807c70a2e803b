package sanitize

import (
	"encoding/json"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

const all = ANSI | Control | Invisible

// TestClean sanitizes the insides of JSON strings, as they are written.
func TestClean(t *testing.T) {
	tests := []struct {
		name     string
		s        Classes
		in, want string
		counts   Counts
	}{
		{"nothing to take", all, `plain é \"quoted\" \n\t \u00e9 日本`, `plain é \"quoted\" \n\t \u00e9 日本`, Counts{}},
		{"nothing that stays", all, `\u0010`, ``, Counts{0, 1}},
		{"a color", all, `\u001b[1;31mred\u001B[0m`, `red`, Counts{2}},
		{"a title", all, `\u001b]0;title\u0007text`, `text`, Counts{1}},
		{"a link", all, `\u001b]8;;http://x/\u001b\\text\u001b]8;;\u001b\\`, `text`, Counts{2}},
		{"what 8 bits write", all, `\u009b31mred\u009d0;t\u009c.`, `red.`, Counts{2}},
		{"raw 8 bits", all, "\u009b31mred", `red`, Counts{1}},
		{"two characters", all, `\u001bMup\u001b7\u001b(Bx`, `upx`, Counts{3}},
		{"one without its end", all, `a\u001b]0;hidden from here on`, `a0;hidden from here on`, Counts{1}},
		{"one without anything", all, `a\u001b`, `a`, Counts{1}},
		{"one in another", all, `\u001b]0;\u001b[31mx\u0007y`, `0;xy`, Counts{2, 1}},
		{"what is left makes no new one", all, `\u001b\u001b[0m[31mred`, `[31mred`, Counts{2}},
		{"parameters that do not end", all, `\u001b[` + string(make9(300)) + `m`, string(make9(300)) + `m`, Counts{1}},
		{"escapes only", ANSI, `\u001b[0m\u0007\u200b`, `\u0007\u200b`, Counts{1}},
		{"control characters only", Control, `\u001b[0m\b\f\r\n\t\u0000\u007f\u0085\u200b`, `[0m\n\t\u200b`, Counts{0, 7}},
		{"invisible ones only", Invisible, `\u001b\u0007a\u200bb`, `\u001b\u0007ab`, Counts{0, 0, 1}},

		{"tags", all, "a\U000E0049\U000E0047\U000E004Eb", `ab`, Counts{0, 0, 3}},
		{"tags that are escaped", all, `a\udb40\udc49b`, `ab`, Counts{0, 0, 1}},
		{"a flag of tags", all, "\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F!", "\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F!", Counts{}},
		{"tags after a flag that say more", all, "\U0001F3F4\U000E0068\U000E0069\U000E007F!", "\U0001F3F4!", Counts{0, 0, 3}},
		{"overrides", all, `a\u202eb\u202c\u2066c\u2069`, `abc`, Counts{0, 0, 4}},
		{"zero width", all, `pass\u200bword\ufeff\u2060\u00ad`, `password`, Counts{0, 0, 4}},
		{"a family", all, "👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧", Counts{}},
		{"a heart on fire", all, "❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥", Counts{}},
		{"a keycap", all, "1\ufe0f\u20e3", "1\ufe0f\u20e3", Counts{}},
		{"selectors that say more", all, "😀\ufe0f\ufe01\U000E0101\U000E0102", "😀\ufe0f", Counts{0, 0, 3}},
		{"joiners without emoji", all, "a\u200db", "ab", Counts{0, 0, 1}},
		{"Persian", all, "می\u200cخواهم", "می\u200cخواهم", Counts{}},
		{"Hindi", all, "क्\u200dष क्\u200cष", "क्\u200dष क्\u200cष", Counts{}},
		{"joiners in a row", all, "क्\u200d\u200d\u200cष", "क्\u200dष", Counts{0, 0, 2}},
		{"Thai", all, "ไทย\u200bไทย", "ไทย\u200bไทย", Counts{}},
		{"Hebrew with a mark", all, "שלום\u200f!", "שלום\u200f!", Counts{}},
		{"a mark in English", all, "a\u200fb", "ab", Counts{0, 0, 1}},
		{"Han with a selector", all, "葛\U000E0100", "葛\U000E0100", Counts{}},

		{"a lone surrogate", all, `cut \ud83d`, `cut \ud83d`, Counts{}},
		{"halves that would become one", all, `\udb40\u200b\udc49`, `\udb40`, Counts{0, 0, 2}},
		{"halves with nothing between", all, `\udc49\udb40`, `\udc49\udb40`, Counts{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := wire.Raw(`{"content":[{"type":"text","text":"` + tt.in + `"}]}`)
			got, counts := tt.s.Result(doc)
			if want := `{"content":[{"type":"text","text":"` + tt.want + `"}]}`; string(got) != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if counts != tt.counts {
				t.Errorf("counted %v, want %v", counts, tt.counts)
			}
			if tt.counts == (Counts{}) && &got[0] != &doc[0] {
				t.Error("the document was copied")
			}
			if !json.Valid(got) {
				t.Errorf("no JSON: %q", got)
			}
			if again, more := tt.s.Result(got); string(again) != string(got) || more != (Counts{}) {
				t.Errorf("again: %q, %v", again, more)
			}
		})
	}
}

func make9(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = '9'
	}
	return out
}

// TestSanitizePlaces checks that text for models is sanitized in every place, and nothing
// else.
func TestSanitizePlaces(t *testing.T) {
	const x = `\u200b`
	check := func(t *testing.T, got wire.Raw, counts Counts, want string, n int) {
		t.Helper()
		if string(got) != want || counts != (Counts{0, 0, n}) {
			t.Errorf("got  %s\nwant %s\ncounted %v", got, want, counts)
		}
	}
	got, counts := all.Result(wire.Raw(`{"content":[{"type":"text","text":"a` + x + `","x":"` + x + `"},{"type":"resource","resource":{"uri":"a:` + x + `","text":"b` + x + `"}},` +
		`{"type":"resource_link","uri":"a:` + x + `","name":"n` + x + `","description":"d` + x + `"}],"structuredContent":{"a":"` + x + `"},"_meta":{"text":"` + x + `"}}`))
	check(t, got, counts, `{"content":[{"type":"text","text":"a","x":"`+x+`"},{"type":"resource","resource":{"uri":"a:`+x+`","text":"b"}},`+
		`{"type":"resource_link","uri":"a:`+x+`","name":"n","description":"d"}],"structuredContent":{"a":"`+x+`"},"_meta":{"text":"`+x+`"}}`, 4)

	got, counts = all.Result(wire.Raw(`{"description":"d` + x + `","messages":[{"role":"user","content":{"type":"text","text":"m` + x + `"}}]}`))
	check(t, got, counts, `{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"m"}}]}`, 2)

	got, counts = all.Result(wire.Raw(`{"contents":[{"uri":"a:` + x + `","text":"c` + x + `"},{"uri":"a:b","blob":"` + x + `"}]}`))
	check(t, got, counts, `{"contents":[{"uri":"a:`+x+`","text":"c"},{"uri":"a:b","blob":"`+x+`"}]}`, 1)

	got, counts = all.Item(call.Tool, wire.Raw(`{"name":"n`+x+`","title":"t`+x+`","description":"d`+x+`","annotations":{"title":"a`+x+`"},`+
		`"inputSchema":{"type":"object","properties":{"description":{"description":"p`+x+`","enum":["`+x+`"]}}}}`))
	check(t, got, counts, `{"name":"n`+x+`","title":"t","description":"d","annotations":{"title":"a"},`+
		`"inputSchema":{"type":"object","properties":{"description":{"description":"p","enum":["`+x+`"]}}}}`, 4)

	got, counts = all.Item(call.Prompt, wire.Raw(`{"name":"n","arguments":[{"name":"a`+x+`","description":"d`+x+`"}]}`))
	check(t, got, counts, `{"name":"n","arguments":[{"name":"a`+x+`","description":"d"}]}`, 1)

	got, counts = all.Request(wire.MethodElicit, wire.Raw(`{"message":"m`+x+`","requestedSchema":{"type":"object","properties":{"a":{"title":"t`+x+`"}}}}`))
	check(t, got, counts, `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"title":"t"}}}}`, 2)

	got, counts = all.Request(wire.MethodSample, wire.Raw(`{"systemPrompt":"s`+x+`","messages":[{"role":"user","content":[{"type":"text","text":"m`+x+`"}]}]}`))
	check(t, got, counts, `{"systemPrompt":"s","messages":[{"role":"user","content":[{"type":"text","text":"m"}]}]}`, 2)

	e, counts := all.Error(&wire.Error{Code: 1, Message: "e\u200b", Raw: wire.Raw(`{"code":1,"message":"e` + x + `","x":"` + x + `"}`)})
	check(t, e.Append(nil), counts, `{"code":1,"message":"e","x":"`+x+`"}`, 1)
	if e.Message != "e" {
		t.Errorf("the message is %q", e.Message)
	}

	text, counts := all.Text("i\u200b \"q\"\x1b[0m\n")
	check(t, wire.Raw(text), Counts{0, 0, counts[2]}, "i \"q\"\n", 1)
}
