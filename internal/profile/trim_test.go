package profile

import (
	"strings"
	"testing"
	"unicode/utf8"

	"mcpgateway/internal/wire"
)

const wordy = `{"name":"t","title":"T","description":"One. Two is longer. Three","icons":[],"_meta":{"description":"stays stays stays"},` +
	`"annotations":{"title":"A","readOnlyHint":true},` +
	`"inputSchema":{"type":"object","title":"I","description":"all of the arguments","examples":[{}],"properties":{` +
	`"description":{"description":"of the description itself","type":"string","example":"x","title":"D","default":{"description":"a value, not a schema"}},` +
	`"title":{"anyOf":[{"title":"x","description":"the first of several"},true]},"examples":{"items":{"examples":[1]},"prefixItems":[{"examples":[2]}]}},` +
	`"$defs":{"examples":{"not":{"title":"y"}}},"const":{"title":"kept","examples":[3]}},` +
	`"outputSchema":{"type":"object","title":"O"}}`

func TestTrim(t *testing.T) {
	for _, tt := range []struct {
		name string
		trim Trim
		want string
	}{
		{"nothing", Trim{}, wordy},
		{"descriptions", Trim{Description: 21, SchemaDescriptions: 12}, replace(
			"One. Two is longer. Three", "One. Two is longer. …",
			"all of the arguments", "all of the…", "of the description itself", "of the…", "the first of several", "the first…",
		)},
		{"examples", Trim{Examples: true}, replace(
			`,"examples":[{}]`, "", `,"example":"x"`, "", `{"examples":[1]}`, "{}", `{"examples":[2]}`, "{}",
		)},
		{"titles", Trim{Titles: true}, replace(
			`,"title":"T"`, "", `"title":"A",`, "", `,"title":"I"`, "", `,"title":"D"`, "", `{"title":"x",`, "{", `{"title":"y"}`, "{}", `,"title":"O"`, "",
		)},
		{"output schema, annotations and icons", Trim{OutputSchema: true, Annotations: true, Icons: true}, replace(
			`,"icons":[]`, "", `,"annotations":{"title":"A","readOnlyHint":true}`, "", `,"outputSchema":{"type":"object","title":"O"}`, "",
		)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(tt.trim.Item(wire.Raw(wordy))); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	same := wire.Raw(`{"name":"t","description":"short","inputSchema":{"type":"object"}}`)
	if got := (&Trim{Description: 5, SchemaDescriptions: 16, Examples: true, Titles: true, Icons: true}).Item(same); &got[0] != &same[0] {
		t.Error("an item without anything to leave out was copied")
	}
	prompt := wire.Raw(`{"name":"p","arguments":[{"name":"a","title":"A","description":"a long description"},{"name":"b"}]}`)
	if got := string((&Trim{SchemaDescriptions: 8, Titles: true}).Item(prompt)); got != `{"name":"p","arguments":[{"name":"a","description":"a long…"},{"name":"b"}]}` {
		t.Errorf("got %s", got)
	}
}

func replace(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(wordy) }

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"Reads a file. Then closes it.", 20, "Reads a file. …"},
		{"Reads a file.\nThen closes it.", 20, "Reads a file.\n…"},
		{"Reads. Then it closes the file.", 20, "Reads. Then it…"},
		{"Is it v1.2 or not v1.3 of it", 20, "Is it v1.2 or not…"},
		{"Is it v1.2 or not", 14, "Is it v1.2 or…"},
		{"nospacesatallinthistext", 10, "nospacesa…"},
		{"übergrößenträger und mehr", 17, "übergrößenträger…"},
		{"漢字だけの文章です。空白はない", 8, "漢字だけの文章…"},
		{"漢字だけの文章です。空白はない", 13, "漢字だけの文章です。…"},
		{"ends in spaces      and goes on", 18, "ends in spaces…"},
		{"   x", 3, "…"},
	} {
		got := cut(tt.text, tt.limit)
		if got != tt.want || utf8.RuneCountInString(got) > tt.limit {
			t.Errorf("%q to %d: got %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}

// FuzzTrim checks that a trimmed item stays valid JSON within its limits.
func FuzzTrim(f *testing.F) {
	f.Add(wordy, 20, 12, uint8(0xff))
	f.Add(`{"name":"t","inputSchema":{"properties":{"a":{"description":"\ud83d\ude00\ud83d x y z","examples":[]}}}}`, 3, 2, uint8(1))
	f.Add(`{"description":"aa aa","description":"bb bb","title":1,"title":{},"annotations":[],"arguments":{},"inputSchema":[]}`, 2, 2, uint8(3))
	f.Fuzz(func(t *testing.T, item string, description, inside int, flags uint8) {
		if description < 0 || inside < 0 || wire.Check([]byte(item), wire.Limits{}, wire.Lenient) != nil {
			return
		}
		trim := Trim{
			Description: description, SchemaDescriptions: inside,
			Examples: flags&1 != 0, Titles: flags&2 != 0, OutputSchema: flags&4 != 0, Annotations: flags&8 != 0, Icons: flags&16 != 0,
		}
		got := trim.Item(wire.Raw(item))
		if err := wire.Check(got, wire.Limits{}, wire.Lenient); err != nil {
			t.Fatalf("%s became %s: %v", item, got, err)
		}
		for m := range wire.ValueOf(got).Members() {
			if s, ok := m.Value.Text(); ok && m.Is("description") && description > 0 && utf8.RuneCountInString(s) > description {
				t.Errorf("a description of %d characters: %q", utf8.RuneCountInString(s), s)
			}
		}
		if again := trim.Item(got); string(again) != string(got) {
			t.Errorf("trimmed again: %s is %s", got, again)
		}
	})
}
