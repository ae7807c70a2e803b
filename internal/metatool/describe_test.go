package metatool

import (
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

func TestDescribeTools(t *testing.T) {
	const read = `{"name":"files__read",`
	for _, tt := range []struct{ arguments, structured, text string }{
		{`{"names":["files__read"]}`, `{"tools":[` + strings.Replace(readTool, `{"name":"read",`, read, 1) + `]}`, strings.Replace(readTool, `{"name":"read",`, read, 1)},
		{`{"names":"files__read"}`, `{"tools":[` + strings.Replace(readTool, `{"name":"read",`, read, 1) + `]}`, strings.Replace(readTool, `{"name":"read",`, read, 1)},
		{`{"names":"[\"files__read\"]"}`, `{"tools":[` + strings.Replace(readTool, `{"name":"read",`, read, 1) + `]}`, strings.Replace(readTool, `{"name":"read",`, read, 1)},
		{`{"name":"files__read"}`, `{"tools":[` + strings.Replace(readTool, `{"name":"read",`, read, 1) + `]}`, strings.Replace(readTool, `{"name":"read",`, read, 1)},
		{
			`{"names":["files__raed","files__secret"]}`,
			`{"tools":[],"unknown":[{"name":"files__raed","similar":["files__read"]},{"name":"files__secret","similar":[]}]}`,
			"isError: There is no tool \"files__raed\". Did you mean files__read? Otherwise find the tool with search_tools.\nThere is no tool \"files__secret\". Find the names of tools with search_tools.",
		},
		{`{}`, "", "isError: describe_tools needs `names`: an array with the names of tools, as search_tools returned them: {\"names\": [\"…\"]}."},
		{`{"names":[]}`, "", "isError: describe_tools needs `names`: an array with the names of tools, as search_tools returned them: {\"names\": [\"…\"]}."},
		{`{"names":["files__read",7]}`, "", "isError: describe_tools needs `names`: an array with the names of tools, as search_tools returned them: {\"names\": [\"…\"]}."},
		{`{"names":[` + strings.Repeat(`"x",`, 20) + `"y"]}`, "", "isError: describe_tools describes at most 20 tools at once: ask for fewer names."},
	} {
		f := newFixture(t, Options{Search: true})
		if got := f.call(t, DescribeTools, tt.arguments); got != tt.text {
			t.Errorf("%s:\n got %s\nwant %s", tt.arguments, got, tt.text)
		}
		res, _ := f.result(t, DescribeTools, `{"name":"describe_tools","arguments":`+tt.arguments+`}`)
		if got := string(wire.ValueOf(res.Raw).Get("structuredContent").Raw()); got != tt.structured {
			t.Errorf("%s:\n got %s\nwant %s", tt.arguments, got, tt.structured)
		}
	}
}

// All definitions together are bounded as results are; the first is whole however long it is.
func TestDescribeToolsIsBounded(t *testing.T) {
	f := newFixture(t, Options{Search: true})
	f.Results = &Results{Max: func(string) int { return len(readTool) + 20 }}
	const arguments = `{"names":["files__read","files__append","files__remove"]}`
	res, err := f.result(t, DescribeTools, `{"name":"describe_tools","arguments":`+arguments+`}`)
	if err != nil {
		t.Fatal(err)
	}
	got := string(wire.ValueOf(res.Raw).Get("structuredContent").Raw())
	if want := `{"tools":[` + strings.Replace(readTool, `"read"`, `"files__read"`, 1) + `],"left_out":["files__append","files__remove"]}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
