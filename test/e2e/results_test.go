package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// logLine is a line of the log that longServer returns.
func logLine(i int) string { return fmt.Sprintf("%05d request handled in %d ms\n", i, i%97) }

// longServer serves tools with long results: a log, and rows as JSON with and without an outputSchema.
func longServer(t *testing.T) (url, log, rows string) {
	var lines strings.Builder
	for i := 1; i <= 5000; i++ {
		lines.WriteString(logLine(i))
	}
	var data struct {
		Rows []map[string]any `json:"rows"`
	}
	for i := range 2000 {
		data.Rows = append(data.Rows, map[string]any{"id": i, "name": fmt.Sprintf("row ü %d", i)})
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	log, rows = lines.String(), string(encoded)
	s := mcp.NewServer(&mcp.Implementation{Name: "long", Version: "1"}, nil)
	object := json.RawMessage(`{"type":"object"}`)
	add := func(tool *mcp.Tool, text string, structured any) {
		tool.InputSchema = object
		s.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: structured}, nil
		})
	}
	add(&mcp.Tool{Name: "log"}, log, nil)
	add(&mcp.Tool{Name: "rows"}, rows, data)
	add(&mcp.Tool{Name: "typed", OutputSchema: object}, rows, data)
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(server.Close)
	return server.URL, log, rows
}

// calling returns a call of a tool.
func calling(tool string, arguments map[string]any) client.Step {
	return client.Step{Method: "tools/call", Params: map[string]any{"name": tool, "arguments": arguments}}
}

// texts returns the texts of the blocks of a result, and the URI of its link.
func texts(result map[string]any) (out []string, link string) {
	for _, block := range objects(result["content"]) {
		if text, ok := block["text"].(string); ok {
			out = append(out, text)
		}
		if block["type"] == "resource_link" {
			link, _ = block["uri"].(string)
		}
	}
	return out, link
}

// A client of any kind gets the beginning of a long result, and reads on where it wants to: as a resource and by the tool.
func TestLargeResults(t *testing.T) {
	url, log, rows := longServer(t)
	gateway := rig.StartGateway(t, rig.Config{
		"upstreams": rig.Upstreams{"long": {"url": url}},
		"profiles":  rig.Config{"default": rig.Config{"max_result": "16KiB"}, "other": rig.Config{"max_result": "16KiB"}, "whole": rig.Config{}},
	})
	for name, c := range resourceClients(gateway.URL) {
		t.Run(name, func(t *testing.T) {
			got := c.results(t, calling("long__log", nil), calling("long__rows", nil), calling("long__typed", nil),
				client.Step{Method: "resources/templates/list"}, client.Step{Method: "tools/list"})
			shown, uri := texts(got[0])
			if len(shown) != 2 || !strings.HasPrefix(log, shown[0]) || !strings.HasSuffix(shown[0], "\n") || len(shown[0])+len(shown[1]) > 16<<10 || !strings.HasPrefix(uri, "gateway+result://") {
				t.Fatalf("%d texts, %s", len(shown), uri)
			}
			_, json := texts(got[1])
			if json == "" || got[1]["structuredContent"] != nil {
				t.Errorf("rows: %.500v", got[1])
			}
			typed, _ := texts(got[2])
			if structured, _ := got[2]["structuredContent"].(map[string]any); len(objects(structured["rows"])) != 2000 || len(typed[0]) > 16<<10 {
				t.Errorf("structuredContent that the client validates: %.500v", got[2])
			}
			if templates := fmt.Sprint(got[3]["resourceTemplates"]); !strings.Contains(templates, "gateway+result://{id}{/part}{?pointer,lines,range,grep,context}") {
				t.Errorf("the templates are %s", templates)
			}
			if tools := fmt.Sprint(got[4]["tools"]); !strings.Contains(tools, "read_result") {
				t.Errorf("the tools are %.500s", tools)
			}

			reads := []struct{ query, want string }{
				{"", log},
				{"?lines=4999-", logLine(4999) + logLine(5000)},
				{"?range=0-4", "00001"},
				{"?grep=" + strings.ReplaceAll("^0(1234|4321) ", " ", "%20") + "&context=1",
					"1233-" + logLine(1233) + "1234:" + logLine(1234) + "1235-" + logLine(1235) + "--\n4320-" + logLine(4320) + "4321:" + logLine(4321) + "4322-" + logLine(4322)},
			}
			var steps []client.Step
			for _, r := range reads {
				steps = append(steps, about("resources/read", uri+r.query))
			}
			steps = append(steps, about("resources/read", json+"?pointer=/rows/1999/name"), about("resources/read", json),
				calling("read_result", map[string]any{"uri": uri, "lines": "2500"}),
				calling("read_result", map[string]any{"uri": json, "pointer": "/rows/7/id"}),
				calling("read_result", map[string]any{"uri": uri, "lines": "1-5000"}),
				calling("read_result", map[string]any{"uri": uri, "grep": "("}),
				client.Step{Method: "completion/complete", Params: map[string]any{
					"ref":      map[string]any{"type": "ref/resource", "uri": "gateway+result://{id}{/part}{?pointer,lines,range,grep,context}"},
					"argument": map[string]any{"name": "id", "value": ""},
				}})
			got = c.results(t, steps...)
			for i, r := range reads {
				contents := objects(got[i]["contents"])
				if len(contents) != 1 || contents[0]["text"] != r.want || contents[0]["uri"] != uri+r.query {
					t.Errorf("%s: %.300v", r.query, contents)
				}
			}
			rest := got[len(reads):]
			if contents := objects(rest[0]["contents"]); len(contents) != 1 || contents[0]["text"] != "row ü 1999" {
				t.Errorf("a pointer: %v", contents)
			}
			if contents := objects(rest[1]["contents"]); len(contents) != 1 || contents[0]["text"] != rows || contents[0]["mimeType"] != "application/json" {
				t.Errorf("the whole: %.300v", contents)
			}
			for i, want := range []string{logLine(2500) + " [This is lines 2500-2500 of 5000.]", "7 [This is bytes 0-0 of 1.]"} {
				if read, _ := texts(rest[2+i]); strings.Join(read, " ") != want {
					t.Errorf("read_result: %q, want %q", read, want)
				}
			}
			if read, _ := texts(rest[4]); len(read) != 2 || len(read[0]) > 16<<10 || !strings.Contains(read[1], `Read on with {"uri": "`+uri+`?lines=`) {
				t.Errorf("too many lines: %.300q", read)
			}
			if read, _ := texts(rest[5]); rest[5]["isError"] != true || !strings.Contains(read[0], "missing closing )") {
				t.Errorf("a broken expression: %v", rest[5])
			}
			if values, _ := rest[6]["completion"].(map[string]any); values == nil || len(values["values"].([]any)) != 0 {
				t.Errorf("the completion of an id: %v", rest[6])
			}
		})
	}

	t.Run("profiles", func(t *testing.T) {
		for _, revision := range []string{raw.Legacy, raw.Modern} {
			all, other, whole := opened(t, gateway.URL, revision, nil), opened(t, gateway.URL+"/other", revision, nil), opened(t, gateway.URL+"/whole", revision, nil)
			result := sendByHand(t, all, calling("long__log", nil)).result
			_, uri := texts(result)
			if read, _ := texts(sendByHand(t, whole, calling("long__log", nil)).result); len(read) != 1 || read[0] != log {
				t.Error("a profile without max_result shortens a result")
			}
			absent := "gateway+result://" + strings.Repeat("a", 32)
			if hers, nobodys := said(t, other, uri), said(t, other, absent); hers != nobodys {
				t.Errorf("a result of another profile: %s, one that nobody has: %s", hers, nobodys)
			}
			said(t, whole, uri)
		}
	})
}

// said returns the error about a resource that does not exist, without its URI.
func said(t *testing.T, c *raw.Client, uri string) string {
	t.Helper()
	fault := sendByHand(t, c, about("resources/read", uri)).fault
	if fault == nil || !strings.Contains(string(fault.Data), uri) {
		t.Fatalf("%s: %v", uri, fault)
	}
	return fmt.Sprint(fault.Code, strings.ReplaceAll(fault.Message, uri, "URI"))
}

// opened opens a connection.
func opened(t *testing.T, url, revision string, header http.Header) *raw.Client {
	t.Helper()
	c, err := raw.OpenWith(t.Context(), url, revision, header)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The results that ann keeps are unknown to bob, and he learns nothing of them.
func TestLargeResultsOfPrincipals(t *testing.T) {
	url, log, _ := longServer(t)
	gateway := rig.StartGateway(t, rig.Config{
		"auth": withKeys(""), "policy": rig.Config{"default": "allow"},
		"upstreams": rig.Upstreams{"long": {"url": url}},
		"profiles":  rig.Config{"default": rig.Config{"max_result": "16KiB"}},
	})
	for _, revision := range []string{raw.Legacy, raw.Modern} {
		ann := opened(t, gateway.URL, revision, http.Header{"X-Api-Key": {"ann"}})
		bob := opened(t, gateway.URL, revision, http.Header{"X-Api-Key": {"bob"}})
		_, uri := texts(sendByHand(t, ann, calling("long__log", nil)).result)
		if got := objects(sendByHand(t, ann, about("resources/read", uri)).result["contents"]); len(got) != 1 || got[0]["text"] != log {
			t.Errorf("ann reads %.300v", got)
		}
		absent := "gateway+result://" + strings.Repeat("b", 32)
		for _, query := range []string{"", "?lines=1-2", "?lines=nonsense", "?pointer=/a", "/7"} {
			if hers, nobodys, elsewhere := said(t, bob, uri+query), said(t, bob, absent+query), said(t, bob, "nowhere://x"); hers != nobodys || hers != elsewhere {
				t.Errorf("%s: bob gets %s, %s for what nobody has, and %s for another unknown resource", query, hers, nobodys, elsewhere)
			}
		}
		hers, _ := texts(sendByHand(t, bob, calling("read_result", map[string]any{"uri": uri})).result)
		nobodys, _ := texts(sendByHand(t, bob, calling("read_result", map[string]any{"uri": absent})).result)
		if strings.ReplaceAll(strings.Join(hers, ""), uri, absent) != strings.Join(nobodys, "") {
			t.Errorf("read_result tells bob %q, and %q for what nobody has", hers, nobodys)
		}
		if _, his := texts(sendByHand(t, bob, calling("long__log", nil)).result); his == uri {
			t.Error("ann and bob share a result")
		}
	}
}
