package console

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/wire"
)

func TestCleanAndLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä 世界 👨‍👩‍👧": "plain ä 世界 👨‍👩‍👧",
		"a\x1b[2Jb":        `a\x1b[2Jb`,
		"a\rb\x00\x9b":     `a\x0db\x00\x9b`,
		"\u202eabc":        `\u202eabc`,
		"\u0085x":          `\u0085x`,
		"line\n\ttab":      "line\n\ttab",
		"\xff":             `\xff`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Line(" a\n  b\tc\x07 "); got != `a b c\x07` {
		t.Errorf("Line = %q", got)
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		in   string
		at   int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"世界世界", 5, "世界…"}, {"世界世界", 4, "世…"}, {"e\u0301e\u0301", 2, "e\u0301e\u0301"}, {"abc", 0, "abc"},
		{"\x1b[32mabc\x1b[0m", 3, "\x1b[32mabc\x1b[0m"}, {"\x1b[32mabcd\x1b[0m", 3, "ab…"},
	} {
		if got := Cut(tc.in, tc.at); got != tc.want || tc.at > 0 && Width(plain(got)) > tc.at {
			t.Errorf("Cut(%q, %d) = %q, want %q", tc.in, tc.at, got, tc.want)
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	colour := Style{Colour: true}
	rows := [][]string{{"世界", colour.Good("ready"), "a long description that goes on"}, {"b", "x", ""}}
	if err := Table(&out, Style{}, 30, []string{"NAME", "STATE", "ABOUT"}, rows); err != nil {
		t.Fatal(err)
	}
	want := "NAME  STATE  ABOUT\n世界  \x1b[32mready\x1b[0m  a long descripti…\nb     x\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}

func TestTableShrinks(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, columns := range []int{80, 60, 40, 30} {
		var out bytes.Buffer
		if err := Table(&out, Style{}, columns, []string{"A", "B", "C"}, [][]string{{long, "b", long}, {"a", long, "c"}}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if w := Width(strings.TrimSpace(line)); w > columns {
				t.Errorf("%d of %d columns: %s", w, columns, line)
			}
		}
	}
	var whole bytes.Buffer
	if err := Table(&whole, Style{}, 0, []string{"A", "B"}, [][]string{{long, long}}); err != nil || !strings.Contains(whole.String(), long+"  "+long) {
		t.Errorf("cut without a terminal:\n%s", whole.String())
	}
}

// Names are in the first column, and people copy them: other columns are cut before.
func TestTableCutsNamesLast(t *testing.T) {
	name, about := strings.Repeat("n", 55), strings.Repeat("a", 40)
	for columns, want := range map[int]string{80: name + "  files  aaaaaaaaaaaaaaa…", 72: name + "  files  aaaaaaa…", 40: strings.Repeat("n", 24) + "…  files  aaaaa…"} {
		var out bytes.Buffer
		if err := Table(&out, Style{}, columns, []string{"A", "B", "C"}, [][]string{{name, "files", about}}); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(out.String(), "\n"); strings.TrimSpace(got) != want {
			t.Errorf("%d columns: %s, want %s", columns, got, want)
		}
	}
}

// Numbers and names are worth more than the heading above them.
func TestTableCutsHeadingsFirst(t *testing.T) {
	var out bytes.Buffer
	if err := Table(&out, Style{}, 36, []string{"UPSTREAM", "REVISION", "RESOURCES", "TIME"}, [][]string{{"everything", "2025-11-25", "7", "0.1s"}}); err != nil {
		t.Fatal(err)
	}
	if want := "UPSTREAM    REVISION    RESOU…  TIME\neverything  2025-11-25  7       0.1s\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// A reason is whole at any width.
func TestFoldedTable(t *testing.T) {
	var out bytes.Buffer
	rows := [][]string{{"first", "no", "a deny glob covers the ordinary name"}, {"second", "yes", "short"}}
	if err := FoldedTable(&out, Style{}, 40, []string{"RULE", "MATCHES", "WHY"}, rows); err != nil {
		t.Fatal(err)
	}
	if want := "RULE    MATCHES  WHY\nfirst   no       a deny glob covers the\n                   ordinary name\nsecond  yes      short\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// Two values that differ at their ends are told apart at any width.
func TestFoldedTableFoldsEachColumn(t *testing.T) {
	var out bytes.Buffer
	rows := [][]string{{"aud", "wrong", "https://other.example.com/mcp", "one of https://gateway.example.com, https://gateway.example.com/mcp"}, {"sub", "ok", "ann", "a text"}}
	if err := FoldedTable(&out, Style{}, 60, []string{"CHECK", "RESULT", "VALUE", "EXPECTED"}, rows); err != nil {
		t.Fatal(err)
	}
	want := "CHECK  RESULT  VALUE                   EXPECTED\n" +
		"aud    wrong   https://other.example.  one of\n" +
		"               com/mcp                   https://gateway.exa\n" +
		"                                         mple.com,\n" +
		"                                         https://gateway.exa\n" +
		"                                         mple.com/mcp\n" +
		"sub    ok      ann                     a text\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if got := foldCell("界界", 1); len(got) != 1 || got[0] != "界界" {
		t.Errorf("a wide character in a column of one: %q", got)
	}
}

// Words stay whole if columns of several words make room for them.
func TestFoldedTableKeepsWords(t *testing.T) {
	var out bytes.Buffer
	rows := [][]string{{"tickets", "this machine's user", "2026-11-26 08:00", "http://127.0.0.1:7801", "read offline_access"}}
	if err := FoldedTable(&out, Style{}, 76, []string{"UPSTREAM", "GIVEN BY", "GIVEN", "ISSUER", "SCOPES"}, rows); err != nil {
		t.Fatal(err)
	}
	want := "UPSTREAM  GIVEN BY      GIVEN        ISSUER                 SCOPES\n" +
		"tickets   this          2026-11-26   http://127.0.0.1:7801  read\n" +
		"            machine's     08:00                               offline_access\n" +
		"            user\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// The first column is folded between words before other columns are folded within them.
func TestFoldedTableFoldsFirstColumn(t *testing.T) {
	var out bytes.Buffer
	rows := [][]string{{"tickets (not configured)", "this machine's user", "2026-11-26 15:24", "http://127.0.0.1:7455", "tickets"}}
	if err := FoldedTable(&out, Style{}, 80, []string{"UPSTREAM", "GIVEN BY", "GIVEN", "ISSUER", "SCOPES"}, rows); err != nil {
		t.Fatal(err)
	}
	want := "UPSTREAM                 GIVEN BY     GIVEN       ISSUER                 SCOPES\n" +
		"tickets (not             this         2026-11-26  http://127.0.0.1:7455  tickets\n" +
		"  configured)              machine's    15:24\n" +
		"                           user\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestFit(t *testing.T) {
	head, rows := []string{"NAME", "ERA", "TIME", "ABOUT"}, [][]string{{"everything", "legacy", "0.1s", strings.Repeat("a", 60)}}
	for columns, want := range map[int]string{0: "NAME ERA TIME ABOUT", 50: "NAME ERA TIME ABOUT", 49: "NAME TIME ABOUT", 41: "NAME ABOUT", 10: "NAME ABOUT"} {
		fit, cut := Fit(columns, head, rows, "ERA", "none", "TIME")
		if got := strings.Join(fit, " "); got != want || len(cut[0]) != len(fit) || len(rows[0]) != 4 || head[1] != "ERA" {
			t.Errorf("%d columns: %s, rows %q, want %s", columns, got, cut, want)
		}
	}
}

func TestFold(t *testing.T) {
	for _, tc := range []struct {
		text    string
		columns int
		want    string
	}{
		{"a  line that is long", 0, "a  line that is long"},
		{"fits  as it is\n\n  one two three", 14, "fits  as it is\n\n  one two\n    three"},
		{"  name   down  it is not there", 20, "  name   down  it is\n    not there"},
		{"one two three four", 9, "one two\n  three\n  four"},
		{"incomprehensible x", 5, "incomprehensible\n  x"},
		{"\x1b[31merror\x1b[0m: one two", 14, "\x1b[31merror\x1b[0m: one two"},
		{"\x1b[31merror\x1b[0m: one two three", 14, "\x1b[31merror\x1b[0m: one two\n  three"},
	} {
		if got := Fold(tc.text, tc.columns); got != tc.want {
			t.Errorf("Fold(%q, %d) = %q, want %q", tc.text, tc.columns, got, tc.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		text    string
		columns int
		want    string
	}{
		{"", 10, ""}, {"one two  three", 0, "  one two three"}, {"one two three", 9, "  one two\n  three"}, {"incomprehensible x", 5, "  incomprehensible\n  x"},
	} {
		if got := Wrap(tc.text, "  ", tc.columns); got != tc.want {
			t.Errorf("Wrap(%q, %d) = %q, want %q", tc.text, tc.columns, got, tc.want)
		}
	}
	for d, want := range map[time.Duration]string{-1: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m", 2*time.Hour + 3*time.Minute: "2h 3m", 49 * time.Hour: "2d 1h"} {
		if got := Ago(d); got != want {
			t.Errorf("Ago(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestStyleOfHeedsTheEnvironment(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	if StyleOf(&bytes.Buffer{}, none).Colour {
		t.Error("colour without a terminal")
	}
	if got := (Style{}).Bad("x"); got != "x" {
		t.Errorf("plain is %q", got)
	}
}

func TestScreenKeepsTheStatusBelow(t *testing.T) {
	var out, log bytes.Buffer
	s := &Screen{out: &out, live: true, width: 20}
	s.Status("waiting for a server that is slow")
	_, _ = io.WriteString(s, "line\n")
	_, _ = io.WriteString(s.To(&log), "logged\n")
	s.Hold()
	s.Status("not now")
	s.Release()
	s.Status("done")
	const shown = "waiting for a serv…"
	want := erase + shown + erase + "line\n" + shown + erase + shown + erase + erase + "done"
	if out.String() != want || log.String() != "logged\n" {
		t.Errorf("got  %q, %q\nwant %q", out.String(), log.String(), want)
	}
	dead := NewScreen(&out, false)
	out.Reset()
	dead.Status("x")
	if out.Len() > 0 {
		t.Error("a status without a terminal")
	}
}

func TestResult(t *testing.T) {
	for _, tc := range []struct{ name, result, want string }{
		{"text", `{"content":[{"type":"text","text":"a\u001b[1m\n"},{"type":"text","text":"b"}],"structuredContent":{"a":1}}`, "a\\x1b[1m\nb\n"},
		{"structured", `{"content":[],"structuredContent":{"big":12345678901234567890}}`, "{\n  \"big\": 12345678901234567890\n}\n"},
		{"others", `{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"audio","mimeType":"audio/wav","data":"AAA="},
			{"type":"resource_link","uri":"file:///x","name":"x","size":2048},{"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","text":"inside"}},
			{"type":"hologram","x":1}]}`,
			"[image: image/png, 3 B]\n[audio: audio/wav, 2 B]\n[resource_link: file:///x, x, 2.0 KiB]\n[resource: a:b, text/plain, 6 B]\ninside\n" +
				"[hologram: an unknown kind of block, 25 B of JSON]\n"},
		{"nothing", `{}`, ""},
	} {
		var out bytes.Buffer
		if err := Result(&out, Style{}, true, wire.Raw(tc.result)); err != nil || out.String() != tc.want {
			t.Errorf("%s: %v\n%q\nwant\n%q", tc.name, err, out.String(), tc.want)
		}
	}
	var out bytes.Buffer
	if err := Result(&out, Style{}, false, wire.Raw(`{"content":[{"type":"text","text":"\u001b"}]}`)); err != nil || out.String() != "\x1b\n" {
		t.Errorf("elsewhere than on a terminal text is not as it was: %q", out.String())
	}
}

// form is a schema with every kind of field.
const form = `{"mode":"form","message":"Who?","requestedSchema":{"type":"object","required":["name","size"],"properties":{
	"name":{"type":"string","title":"Name","minLength":2,"maxLength":5},
	"mail":{"type":"string","format":"email"},
	"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]},
	"old":{"type":"string","enum":["x","y"],"enumNames":["Ex","Why"],"default":"y"},
	"many":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b","c"]}},
	"count":{"type":"integer","minimum":1,"maximum":9},
	"part":{"type":"number"},
	"sure":{"type":"boolean","default":true},
	"day":{"type":"string","format":"date"},
	"at":{"type":"string","format":"date-time"},
	"site":{"type":"string","format":"uri"}}}}`

func TestElicit(t *testing.T) {
	for _, tc := range []struct{ name, params, typed, want string }{
		{"filled", form, "maybe\ny\n\nA\ntoolong\nAda\nnope\na@example.com\n3\nLarge\n\n1,2,3\nq\n1, c\n1.5\n12\n7\nabc\n0x10\n2.50\nhm\n\nsoon\n2026-02-30\n2026-01-31\nnoon\n2026-01-31T12:00:00Z\nnot a uri\nhttps://x.example\n",
			`{"action":"accept","content":{"name":"Ada","mail":"a@example.com","size":"l","old":"y","many":["a","c"],"count":7,"part":2.5,"sure":true,"day":"2026-01-31","at":"2026-01-31T12:00:00Z","site":"https://x.example"}}`},
		{"left out", form, "y\nAda\n\ns\n\n\n\n\n\n\n\n\n", `{"action":"accept","content":{"name":"Ada","size":"s","old":"y","sure":true}}`},
		{"declined", form, "n\n", `{"action":"decline"}`},
		{"cancelled", form, "c\n", `{"action":"cancel"}`},
		{"ended at once", form, "", `{"action":"cancel"}`},
		{"ended half way", form, "y\nAda\n", `{"action":"cancel"}`},
		{"confirmed", `{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`, "yes\n", `{"action":"accept","content":{}}`},
		{"url", `{"mode":"url","message":"Log in","url":"https://x.example/login"}`, "y\n", `{"action":"accept"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			got, err := NewPrompter(strings.NewReader(tc.typed), &out, Style{}).Elicit(t.Context(), wire.Raw(tc.params))
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v\nwant %s\n%s", got, err, tc.want, out.String())
			}
			if strings.Contains(out.String(), "answer with y, n or c\n") != strings.HasPrefix(tc.typed, "maybe") {
				t.Errorf("asked again without a hint, or hinted without a reason:\n%s", out.String())
			}
		})
	}
	var out bytes.Buffer
	if _, err := NewPrompter(strings.NewReader("y\n"), &out, Style{}).Elicit(t.Context(), wire.Raw(`{"mode":"url","message":"a\u001b[2J","url":"https://x.example/\u001b]8"}`)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), `https://x.example/\x1b]8`) {
		t.Errorf("shown as %q", out.String())
	}
}

func TestQuestionsEndWithTheCall(t *testing.T) {
	in, typing := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewPrompter(in, io.Discard, Style{}).Elicit(ctx, wire.Raw(form))
	if err != context.Canceled {
		t.Errorf("error %v", err)
	}
	_ = typing.Close()
}

// A question whose time has ended says so. The person who cancels it knows.
func TestQuestionsThatLapse(t *testing.T) {
	lapsed, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	cancelled, end := context.WithCancel(t.Context())
	end()
	for ctx, want := range map[context.Context]bool{lapsed: true, cancelled: false} {
		in, typing := io.Pipe()
		var out bytes.Buffer
		if _, err := NewPrompter(in, &out, Style{}).Elicit(ctx, wire.Raw(form)); err == nil {
			t.Error("no error")
		}
		if got := strings.HasSuffix(out.String(), "\nThe time to answer has ended.\n"); got != want {
			t.Errorf("%v: printed %q", ctx.Err(), out.String())
		}
		_ = typing.Close()
	}
}

// A whole number is sent with all its digits.
func TestNumbers(t *testing.T) {
	whole, part := &field{kind: "integer"}, &field{kind: "number"}
	for _, tc := range []struct {
		f          *field
		text, want string // "": refused
	}{
		{whole, "9007199254740993", "9007199254740993"}, {whole, "+5", "5"}, {whole, "007", "7"}, {whole, "1.5", ""}, {whole, "1e3", ""}, {whole, "x", ""},
		{part, "2.50", "2.5"}, {part, "1e3", "1000"}, {part, ".5", "0.5"}, {part, "+2", "2"}, {part, "NaN", ""}, {part, "0x1", ""},
	} {
		got, err := tc.f.parse(tc.text)
		if string(got) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s %q: %s, %v; want %q", tc.f.kind, tc.text, got, err, tc.want)
		}
	}
}
