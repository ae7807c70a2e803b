package schemaform

import (
	"net/url"
	"strings"
	"testing"

	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// fill posts a form as a browser does, with the text of each field that has a label.
func fill(f *Field, with map[string]string) url.Values {
	out := url.Values{}
	var walk func(f *Field)
	walk = func(f *Field) {
		value := f.Value
		if text, ok := with[f.Name]; ok {
			value = text
		}
		switch f.Kind {
		case fieldSelect:
			for _, o := range f.Options {
				if o.Text == value || o.Selected && with[f.Name] == "" {
					out.Set(f.Path, o.Value)
				}
			}
		case fieldMany:
			for _, o := range f.Options {
				if strings.Contains(value, o.Text) {
					out.Add(f.Path, o.Value)
				}
			}
		case fieldChoice:
			for _, o := range f.Options {
				if o.Selected {
					out.Set(f.Path+".c", o.Value)
				}
			}
		case fieldArray:
			out.Set(f.Path+".n", "0")
			if len(f.Fields) > 0 {
				out.Set(f.Path+".n", string(rune('0'+len(f.Fields))))
			}
		case fieldObject:
		default:
			out.Set(f.Path, value)
		}
		for _, inner := range f.Fields {
			walk(inner)
		}
	}
	walk(f)
	return out
}

// A filled form gives the JSON that the schema describes.
func TestFormsGiveJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		schema string
		with   map[string]string
		want   string // "" for a problem
	}{
		"strings":                         {`{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, map[string]string{"a": "x\r\ny"}, `{"a":"x\ny"}`},
		"a missing one":                   {`{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`, nil, ``},
		"defaults":                        {`{"type":"object","properties":{"a":{"type":"string","default":"d"},"n":{"type":"integer","default":3},"b":{"type":"boolean","default":false},"l":{"type":"array","items":{"type":"number"},"default":[1,2]}}}`, nil, `{"a":"d","n":3,"b":false,"l":[1,2]}`},
		"a default in an optional object": {`{"type":"object","properties":{"o":{"type":"object","required":["x"],"properties":{"a":{"type":"string","default":"d"},"x":{"type":"string"}}}}}`, nil, `{}`},
		"numbers":                         {`{"type":"object","properties":{"n":{"type":"number"},"i":{"type":"integer"}}}`, map[string]string{"n": "1.50", "i": "123456789012345678901234567890"}, `{"n":1.50,"i":123456789012345678901234567890}`},
		"no number":                       {`{"type":"object","properties":{"n":{"type":"number"}}}`, map[string]string{"n": "\"1\""}, ``},
		"no whole number":                 {`{"type":"object","properties":{"n":{"type":"integer"}}}`, map[string]string{"n": "1.5"}, ``},
		"an enum":                         {`{"type":"object","properties":{"e":{"enum":["a",1,null]}}}`, map[string]string{"e": "1"}, `{"e":1}`},
		"titles of an enum":               {`{"type":"object","properties":{"e":{"type":"string","oneOf":[{"const":"a","title":"Ah"},{"const":"b","title":"Be"}]}}}`, map[string]string{"e": "Be"}, `{"e":"b"}`},
		"a const":                         {`{"type":"object","required":["c"],"properties":{"c":{"const":{"x":1}},"d":{"const":2}}}`, nil, `{"c":{"x":1}}`},
		"several of an enum":              {`{"type":"object","properties":{"m":{"type":"array","items":{"enum":["a","b","c"]}}}}`, map[string]string{"m": "a c"}, `{"m":["a","c"]}`},
		"nested":                          {`{"type":"object","required":["o"],"properties":{"o":{"type":"object","required":["p"],"properties":{"p":{"$ref":"#/$defs/s"}}}},"$defs":{"s":{"type":"string"}}}`, map[string]string{"p": "q"}, `{"o":{"p":"q"}}`},
		"optional in Pydantic":            {`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null},"b":{"type":["integer","null"]}}}`, map[string]string{"b": "4"}, `{"b":4}`},
		"null if it must be":              {`{"type":"object","required":["a"],"properties":{"a":{"type":["string","null"]}}}`, nil, `{"a":null}`},
		"a choice":                        {`{"type":"object","required":["a"],"properties":{"a":{"oneOf":[{"type":"object","required":["x"],"properties":{"x":{"type":"string"}}},{"type":"number"}]}}}`, map[string]string{"x": "y"}, `{"a":{"x":"y"}}`},
		"dates":                           {`{"type":"object","properties":{"d":{"type":"string","format":"date"},"t":{"type":"string","format":"date-time"}}}`, map[string]string{"d": "2026-01-02", "t": "2026-01-02T03:04"}, `{"d":"2026-01-02","t":"2026-01-02T03:04:00Z"}`},
		"anything":                        {`{"type":"object","properties":{"j":{}}}`, map[string]string{"j": ` {"a": [1]} `}, `{"j":{"a": [1]}}`},
		"anything with a mistake":         {`{"type":"object","properties":{"j":true}}`, map[string]string{"j": `{"a":1,"a":2}`}, ``},
		"no members":                      {`{"type":"object"}`, nil, `{}`},
		"a hostile name":                  {`{"type":"object","properties":{"<b>\"\u202e":{"type":"string"}}}`, map[string]string{"<b>\"\u202e": "x"}, "{\"<b>\\\"\u202e\":\"x\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			schema := wire.ValueOf([]byte(tt.schema))
			empty := New("f", schema, nil)
			if empty.Root == nil {
				t.Fatal(empty.Why)
			}
			f := New("f", schema, fill(empty.Root, tt.with))
			raw, ok := f.Value()
			if ok != (tt.want != "") || ok && string(raw) != tt.want {
				t.Fatalf("%s, %v", raw, ok)
			}
			if ok {
				if err := toolschema.New(wire.Raw(tt.schema)).Validate(raw); err != nil {
					t.Errorf("%s: %v", raw, err)
				}
			}
		})
	}
}

// Items of an array are added and removed, and the others keep what was typed.
func TestFormsRearrange(t *testing.T) {
	schema := wire.ValueOf([]byte(`{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}}}`))
	posted := url.Values{"f.0.n": {"2"}, "f.0.0.0": {"x"}, "f.0.1.0": {"y"}}
	for _, step := range []struct{ button, value, want, focus string }{
		{"add", "f.0", `{"l":[{"a":"x"},{"a":"y"},{}]}`, "f.0.2"},
		{"remove", "f.0.0", `{"l":[{"a":"y"}]}`, "f.0"},
		{"remove", "f.0.7", `{"l":[{"a":"x"},{"a":"y"}]}`, ""},
		{"remove", "../x", `{"l":[{"a":"x"},{"a":"y"}]}`, ""},
	} {
		with := url.Values{step.button: {step.value}}
		for name, values := range posted {
			with[name] = values
		}
		f := New("f", schema, with)
		raw, _ := f.Value()
		if string(raw) != step.want {
			t.Errorf("%s %s: %s", step.button, step.value, raw)
		}
		focused := ""
		var walk func(f *Field)
		walk = func(f *Field) {
			if f.Focus {
				focused = f.Path
			}
			for _, inner := range f.Fields {
				walk(inner)
			}
		}
		walk(f.Root)
		if focused != step.focus {
			t.Errorf("%s %s: the focus is at %q", step.button, step.value, focused)
		}
	}
}

// Schemas that no form can show are left to the JSON.
func TestFormsGiveUp(t *testing.T) {
	wide := `{"type":"object","properties":{"a":{}`
	for i := range 400 {
		wide += `,"p` + strings.Repeat("x", i) + `":{"type":"string"}`
	}
	for name, schema := range map[string]string{
		"no object": `{"type":"string"}`, "not JSON Schema": `[]`, "true": `true`, "too wide": wide + `}}`,
		"a loop": `{"$ref":"#"}`,
	} {
		if f := New("f", wire.ValueOf([]byte(schema)), nil); f.Root != nil || f.Why == "" {
			t.Errorf("%s has a form", name)
		}
	}
}

// Any schema and any posted form give a form within bounds, or none.
func FuzzForm(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"oneOf":[{"$ref":"#/properties/a"},{"type":"array","items":{"$ref":"#"}}]}}}`), "f.0.n=9&add=f.0&f.0.c=1")
	f.Add([]byte(`{"type":["object","null"],"anyOf":[{"allOf":[{}]}],"required":"x","properties":{"":{"enum":{},"default":[[]]}}}`), "remove=f.0.0&f.0=%00")
	f.Fuzz(func(t *testing.T, schema []byte, query string) {
		if wire.Check(schema, wire.Limits{}, wire.Lenient) != nil {
			return
		}
		posted, _ := url.ParseQuery(query)
		for _, q := range []url.Values{nil, posted} {
			form := New("f", wire.ValueOf(schema), q)
			if form.Root == nil {
				if form.Why == "" {
					t.Fatal("no form, and no reason")
				}
				continue
			}
			n := 0
			var walk func(f *Field)
			walk = func(f *Field) {
				if n++; n > MaxFields {
					t.Fatal("too many fields")
				}
				for _, inner := range f.Fields {
					walk(inner)
				}
			}
			walk(form.Root)
			if raw, ok := form.Value(); ok && wire.Check(raw, wire.Limits{}, wire.Lenient) != nil {
				t.Fatalf("no JSON: %s", raw)
			}
		}
	})
}
