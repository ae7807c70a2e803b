package wire

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeaderParams(t *testing.T) {
	for name, tc := range map[string]struct {
		schema string
		want   []HeaderParam
		err    string
	}{
		"none":           {schema: `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"absent schema":  {schema: ``},
		"boolean schema": {schema: `true`},
		"one": {
			schema: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"region"}}}`,
			want:   []HeaderParam{{Header: "Mcp-Param-Region", Path: []string{"region"}}},
		},
		"nested, in the order of the schema": {
			schema: `{"properties":{"b":{"type":"object","properties":{"x":{"type":"integer","x-mcp-header":"X"},"y":{"type":"boolean","x-mcp-header":"Y"}}},"a":{"type":"string","x-mcp-header":"A"}}}`,
			want: []HeaderParam{
				{Header: "Mcp-Param-X", Path: []string{"b", "x"}},
				{Header: "Mcp-Param-Y", Path: []string{"b", "y"}},
				{Header: "Mcp-Param-A", Path: []string{"a"}},
			},
		},
		"escaped key": {
			schema: `{"properties":{"a":{"type":"string","x\u002dmcp-header":"A"}}}`,
			want:   []HeaderParam{{Header: "Mcp-Param-A", Path: []string{"a"}}},
		},
		"a property of that name is no annotation": {
			schema: `{"properties":{"x-mcp-header":{"type":"string"}}}`,
		},
		"data of that name is no annotation": {
			schema: `{"properties":{"a":{"type":"object","default":{"x-mcp-header":"no"},"enum":[{"x-mcp-header":1}]}}}`,
		},
		"empty":          {schema: `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, err: `x-mcp-header "" of "a" is not an HTTP field name`},
		"line break":     {schema: `{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}`, err: `x-mcp-header "A\r\nB" of "a" is not an HTTP field name`},
		"space":          {schema: `{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`, err: `x-mcp-header "A B" of "a" is not an HTTP field name`},
		"no ASCII":       {schema: `{"properties":{"a":{"type":"string","x-mcp-header":"ä"}}}`, err: `x-mcp-header "ä" of "a" is not an HTTP field name`},
		"no string":      {schema: `{"properties":{"a":{"type":"string","x-mcp-header":1}}}`, err: `x-mcp-header of "a" must be a string`},
		"number":         {schema: `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, err: `x-mcp-header "A" of "a": the type must be string, integer or boolean`},
		"object":         {schema: `{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`, err: `x-mcp-header "A" of "a": the type must be string, integer or boolean`},
		"type is a list": {schema: `{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`, err: `x-mcp-header "A" of "a": the type must be string, integer or boolean`},
		"twice in other case": {
			schema: `{"properties":{"a":{"type":"string","x-mcp-header":"Tenant"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"TENANT"}}}}}`,
			err:    `x-mcp-header "TENANT" occurs twice: at "a" and at "b.c"`,
		},
		"root":     {schema: `{"type":"string","x-mcp-header":"A"}`, err: `x-mcp-header "A" is not reachable through properties only`},
		"items":    {schema: `{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}`, err: `x-mcp-header "A" is not reachable through properties only`},
		"anyOf":    {schema: `{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"string","x-mcp-header":"A"}]}}}`, err: `x-mcp-header "A" is not reachable through properties only`},
		"then":     {schema: `{"then":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, err: `x-mcp-header "A" is not reachable through properties only`},
		"$defs":    {schema: `{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`, err: `x-mcp-header "A" is not reachable through properties only`},
		"patterns": {schema: `{"patternProperties":{"^a":{"type":"string","x-mcp-header":"A"}}}`, err: `x-mcp-header "A" is not reachable through properties only`},
		"additionalProperties": {
			schema: `{"additionalProperties":{"type":"string","x-mcp-header":"A"}}`,
			err:    `x-mcp-header "A" is not reachable through properties only`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := HeaderParams(Raw(tc.schema))
			if message(err) != tc.err {
				t.Fatalf("error %q, want %q", message(err), tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestHeaderParamValue(t *testing.T) {
	p := HeaderParam{Header: "Mcp-Param-A", Path: []string{"o", "a"}}
	for name, tc := range map[string]struct {
		arguments, want string
		none            bool
	}{
		"string":         {arguments: `{"o":{"a":"us-west1"}}`, want: "us-west1"},
		"escaped string": {arguments: `{"o":{"a":"a\tb"}}`, want: "a\tb"},
		"empty string":   {arguments: `{"o":{"a":""}}`, want: "=?base64??="},
		"padded":         {arguments: `{"o":{"a":" padded "}}`, want: "=?base64?IHBhZGRlZCA=?="},
		"not ASCII":      {arguments: `{"o":{"a":"Hello, 世界"}}`, want: "=?base64?SGVsbG8sIOS4lueVjA==?="},
		"line break":     {arguments: `{"o":{"a":"line1\nline2"}}`, want: "=?base64?bGluZTEKbGluZTI=?="},
		"sentinel":       {arguments: `{"o":{"a":"=?base64?literal?="}}`, want: "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		"integer":        {arguments: `{"o":{"a":-7}}`, want: "-7"},
		"integral":       {arguments: `{"o":{"a":42.0}}`, want: "42"},
		"true":           {arguments: `{"o":{"a":true}}`, want: "true"},
		"false":          {arguments: `{"o":{"a":false}}`, want: "false"},
		"null":           {arguments: `{"o":{"a":null}}`, none: true},
		"absent":         {arguments: `{"o":{}}`, none: true},
		"no object":      {arguments: `{"o":[1]}`, none: true},
		"no arguments":   {arguments: ``, none: true},
		"object":         {arguments: `{"o":{"a":{}}}`, none: true},
		"other case":     {arguments: `{"O":{"a":"x"}}`, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := p.Value(Raw(tc.arguments))
			if got != tc.want || ok == tc.none {
				t.Errorf("got %q, %v, want %q, %v", got, ok, tc.want, !tc.none)
			}
		})
	}
}

func TestCheckHeaderParams(t *testing.T) {
	params := []HeaderParam{{Header: "Mcp-Param-A", Path: []string{"a"}}}
	for name, tc := range map[string]struct {
		arguments string
		headers   []string
		err       string
	}{
		"same":                                {arguments: `{"a":"x"}`, headers: []string{"x"}},
		"same, encoded":                       {arguments: `{"a":"ä"}`, headers: []string{"=?base64?w6Q=?="}},
		"same, encoded in vain":               {arguments: `{"a":"x"}`, headers: []string{"=?base64?eA==?="}},
		"empty":                               {arguments: `{"a":""}`, headers: []string{""}},
		"integers numerically":                {arguments: `{"a":42}`, headers: []string{"42.0"}},
		"large integers exactly":              {arguments: `{"a":9007199254740993}`, headers: []string{"9007199254740992"}, err: `Mcp-Param-A header does not match the parameter "a"`},
		"boolean":                             {arguments: `{"a":true}`, headers: []string{"true"}},
		"boolean in capitals":                 {arguments: `{"a":true}`, headers: []string{"True"}, err: `Mcp-Param-A header does not match the parameter "a"`},
		"a string that looks like the number": {arguments: `{"a":"42"}`, headers: []string{"42.0"}, err: `Mcp-Param-A header does not match the parameter "a"`},
		"no JSON number":                      {arguments: `{"a":16}`, headers: []string{"0x10"}, err: `Mcp-Param-A header does not match the parameter "a"`},
		"absent in both":                      {arguments: `{}`},
		"null":                                {arguments: `{"a":null}`},
		"null, with header":                   {arguments: `{"a":null}`, headers: []string{"null"}, err: `unexpected Mcp-Param-A header: the parameter "a" is absent or null`},
		"absent, with header":                 {arguments: ``, headers: []string{"x"}, err: `unexpected Mcp-Param-A header: the parameter "a" is absent or null`},
		"missing":                             {arguments: `{"a":"x"}`, err: `missing Mcp-Param-A header for the parameter "a"`},
		"different":                           {arguments: `{"a":"x"}`, headers: []string{"y"}, err: `Mcp-Param-A header does not match the parameter "a"`},
		"twice":                               {arguments: `{"a":"x"}`, headers: []string{"x", "x"}, err: `Mcp-Param-A header occurs 2 times`},
		"bad Base64":                          {arguments: `{"a":"x"}`, headers: []string{"=?base64?*?="}, err: `Mcp-Param-A header is malformed`},
		"no primitive":                        {arguments: `{"a":[1]}`, headers: []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			if tc.headers != nil {
				h["Mcp-Param-A"] = tc.headers
			}
			if got := message(CheckHeaderParams(params, Raw(tc.arguments), h.Values)); got != tc.err {
				t.Errorf("error %q, want %q", got, tc.err)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
