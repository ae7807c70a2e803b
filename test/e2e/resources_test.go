package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// resourceClient sends requests of any method, one after another, and returns their outcomes.
type resourceClient func(t *testing.T, steps []client.Step) []resourceOutcome

// resourceOutcome is an error, or a result without the members that the client's era adds.
type resourceOutcome struct {
	result map[string]any
	fault  *raw.Fault
}

// resourceClients returns clients without support for SEP-2093 that show every member: a hand-written one for each era, and those of the TypeScript SDK.
func resourceClients(url string) map[string]resourceClient {
	clients := map[string]resourceClient{}
	for era, revision := range map[string]string{client.Legacy: raw.Legacy, client.Modern: raw.Modern} {
		clients["by hand, "+era] = func(t *testing.T, steps []client.Step) (out []resourceOutcome) {
			c, err := raw.Open(t.Context(), url, revision)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range steps {
				out = append(out, sendByHand(t, c, step))
			}
			return out
		}
	}
	for _, c := range []client.Client{client.V1(), client.V2(client.Legacy), client.V2(client.Modern)} {
		clients["TypeScript "+c.Name()] = func(t *testing.T, steps []client.Step) (out []resourceOutcome) {
			untyped := slices.Clone(steps)
			for i := range untyped {
				untyped[i].Untyped = true
			}
			for _, o := range c.Run(t, client.Target{URL: url}, untyped).Steps {
				if o.Error != nil {
					out = append(out, resourceOutcome{fault: &raw.Fault{Code: o.Error.Code, Message: o.Error.Message, Data: o.Error.Data}})
					continue
				}
				out = append(out, resourceOutcome{result: bare(client.Decode[map[string]any](t, o))})
			}
			return out
		}
	}
	return clients
}

func sendByHand(t *testing.T, c *raw.Client, step client.Step) resourceOutcome {
	params := step.Params
	if params == nil {
		params = map[string]any{}
	}
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Call(t.Context(), step.Method, string(text))
	if fault, ok := errors.AsType[*raw.Fault](err); ok {
		return resourceOutcome{fault: fault}
	} else if err != nil {
		t.Fatal(err)
	}
	var result map[string]any
	if err := json.Unmarshal([]byte(m.Member("result")), &result); err != nil {
		t.Fatal(err)
	}
	return resourceOutcome{result: bare(result)}
}

// bare removes the members that the client's era adds to every result.
func bare(result map[string]any) map[string]any {
	for _, name := range []string{"resultType", "ttlMs", "cacheScope", "_meta"} {
		delete(result, name)
	}
	return result
}

// results sends the steps and returns the results. It fails the test if one is an error.
func (c resourceClient) results(t *testing.T, steps ...client.Step) []map[string]any {
	t.Helper()
	var out []map[string]any
	for i, o := range c(t, steps) {
		if o.fault != nil {
			t.Fatalf("%s %v: %v", steps[i].Method, steps[i].Params, o.fault)
		}
		out = append(out, o.result)
	}
	return out
}

// about returns a request about one resource.
func about(method, uri string) client.Step {
	return client.Step{Method: method, Params: map[string]any{"uri": uri}}
}

func objects(list any) []map[string]any {
	var out []map[string]any
	items, _ := list.([]any)
	for _, item := range items {
		object, _ := item.(map[string]any)
		out = append(out, object)
	}
	return out
}

func uris(list any) []string {
	var out []string
	for _, o := range objects(list) {
		out = append(out, fmt.Sprint(o["uri"]))
	}
	return out
}

// The gateway adds the draft's answers for a server without support for SEP-2093.
func TestResourcesOfEverything(t *testing.T) {
	args := rig.EverythingCommand(t)
	gateway := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{
		"everything": {"command": args[0], "args": args[1:]},
	}})
	const folder = "everything+demo://resource/static/document"
	// The first document in the folder. The server's own list names it.
	const uri, dynamic, missing = folder + "/architecture.md", "everything+demo://resource/dynamic/blob/7", "everything+demo://missing"
	for name, c := range resourceClients(gateway.URL) {
		t.Run(name, func(t *testing.T) {
			got := c.results(t, client.Step{Method: "resources/list"}, about("resources/read", uri), about("resources/metadata", uri),
				about("resources/metadata", dynamic), about("resources/read", dynamic), about("resources/list", folder))
			var item map[string]any
			for _, listed := range objects(got[0]["resources"]) {
				if listed["uri"] == uri {
					item = listed
				}
			}
			if item["name"] == nil || item["description"] == nil {
				t.Fatalf("the list contains %v", got[0])
			}

			read := objects(got[1]["contents"])
			if len(read) != 1 {
				t.Fatalf("%d contents", len(read))
			}
			text, _ := read[0]["text"].(string)
			want := map[string]any{
				"uri": uri, "mimeType": item["mimeType"], "text": text, "name": item["name"], "description": item["description"], "size": float64(len(text)),
			}
			if diff := cmp.Diff(want, read[0]); diff != "" || text == "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]any{"resource": item}, got[2]); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}

			described, _ := got[3]["resource"].(map[string]any)
			if described["uri"] != dynamic || described["name"] != "Dynamic Blob Resource" || described["uriTemplate"] != nil {
				t.Errorf("resource of a template: %v", described)
			}
			blob := objects(got[4]["contents"])[0]
			data, err := base64.StdEncoding.DecodeString(fmt.Sprint(blob["blob"]))
			if err != nil || blob["size"] != float64(len(data)) || blob["name"] != described["name"] {
				t.Errorf("content of a resource of a template: %v, %v", blob, err)
			}
			if children := uris(got[5]["resources"]); !slices.Equal(children, uris(got[0]["resources"])) || len(children) < 2 {
				t.Errorf("children of the folder: %q", children)
			}

			code := -32602
			if strings.HasSuffix(name, "v1") || name == "by hand, legacy" { // the second generation translates the legacy code into this one
				code = -32002
			}
			for i, o := range c(t, []client.Step{about("resources/metadata", missing), about("resources/list", missing)}) {
				if o.fault == nil || o.fault.Code != code || !strings.Contains(string(o.fault.Data), missing) {
					t.Errorf("step %d about a missing resource: %v", i, o.fault)
				}
			}
		})
	}
}

// The number of files in the folder of TestCollections: more than one page of a list.
const manyFiles = 1200

// fileServer serves a folder of small files and a report in two formats as resources, with the Go SDK.
func fileServer(t *testing.T, stateless bool) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	add := func(r *mcp.Resource, contents ...*mcp.ResourceContents) {
		s.AddResource(r, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: contents}, nil
		})
	}
	file := func(i int) *mcp.ResourceContents {
		return &mcp.ResourceContents{URI: fmt.Sprintf("file:///notes/%04d.txt", i), MIMEType: "text/plain", Text: fmt.Sprintf("note %d, ü", i)}
	}
	for i := range manyFiles {
		c := file(i)
		add(&mcp.Resource{URI: c.URI, Name: fmt.Sprintf("%04d.txt", i), Title: fmt.Sprintf("Note %d", i), MIMEType: c.MIMEType}, c)
	}
	add(&mcp.Resource{URI: "file:///notes", Name: "notes", MIMEType: "inode/directory"}, file(0), file(1))
	pdf := bytes.Repeat([]byte("%PDF-1.4\n"), 100)
	add(&mcp.Resource{
		URI: "file:///report.pdf", Name: "Quarterly Report", Description: "Of one quarter.", MIMEType: "application/pdf", Size: int64(len(pdf)),
		Annotations: &mcp.Annotations{Priority: 0.5},
	}, &mcp.ResourceContents{URI: "file:///report.pdf", MIMEType: "application/pdf", Blob: pdf},
		&mcp.ResourceContents{URI: "file:///report.pdf", MIMEType: "text/plain", Text: "Extracted."})
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(server.Close)
	return server.URL
}

// A folder is a collection with children in pages, and a document has several formats.
func TestCollections(t *testing.T) {
	for _, era := range []string{client.Legacy, client.Modern} {
		t.Run(era+" server", func(t *testing.T) {
			gateway := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{
				"files": {"url": fileServer(t, era == client.Modern)},
			}})
			for name, c := range resourceClients(gateway.URL) {
				t.Run(name, func(t *testing.T) {
					const notes, report = "files+file:///notes", "files+file:///report.pdf"
					got := c.results(t, about("resources/metadata", notes), about("resources/read", notes), about("resources/list", notes), about("resources/read", report))
					want := map[string]any{"resource": map[string]any{"uri": notes, "name": "notes", "mimeType": "inode/directory", "resourceType": "collection"}}
					if diff := cmp.Diff(want, got[0]); diff != "" {
						t.Errorf("metadata of the folder (-want +got):\n%s", diff)
					}

					child := func(i int) map[string]any {
						text := fmt.Sprintf("note %d, ü", i)
						return map[string]any{
							"uri": fmt.Sprintf(notes+"/%04d.txt", i), "mimeType": "text/plain", "text": text,
							"name": fmt.Sprintf("%04d.txt", i), "title": fmt.Sprintf("Note %d", i), "size": float64(len(text)),
						}
					}
					if diff := cmp.Diff([]map[string]any{child(0), child(1)}, objects(got[1]["contents"])); diff != "" {
						t.Errorf("contents of the folder (-want +got):\n%s", diff)
					}

					children := uris(got[2]["resources"])
					next := about("resources/list", notes)
					next.Params["cursor"] = got[2]["nextCursor"]
					rest := c.results(t, next)[0]
					children = append(children, uris(rest["resources"])...)
					slices.Sort(children)
					if children = slices.Compact(children); len(children) != manyFiles || rest["nextCursor"] != nil || slices.Contains(children, notes) {
						t.Errorf("%d children in two pages, and then %v", len(children), rest["nextCursor"])
					}

					formats := objects(got[3]["contents"])
					if len(formats) != 2 {
						t.Fatalf("%d formats", len(formats))
					}
					for i, own := range []map[string]any{{"mimeType": "application/pdf", "size": 900.0}, {"mimeType": "text/plain", "size": 10.0}} {
						own["uri"], own["name"], own["description"] = "files+file:///report.pdf", "Quarterly Report", "Of one quarter."
						own["annotations"] = map[string]any{"priority": 0.5}
						delete(formats[i], "text")
						delete(formats[i], "blob")
						if diff := cmp.Diff(own, formats[i]); diff != "" {
							t.Errorf("format %d (-want +got):\n%s", i, diff)
						}
					}
				})
			}
		})
	}
}

// The gateway changes only the URIs of a server that implements the draft, in both forms.
func TestDraftPassesThrough(t *testing.T) {
	for form, answers := range map[string]map[string]string{"first": draftFirst, "later": draftLater} {
		for _, era := range []string{client.Legacy, client.Modern} {
			t.Run(form+" form, "+era+" server", func(t *testing.T) {
				server, url := startDraft(t, era, answers)
				gateway := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{"draft": {"url": url}}})
				for name, c := range resourceClients(gateway.URL) {
					t.Run(name, func(t *testing.T) {
						var steps []client.Step
						asked := slices.Sorted(maps.Keys(answers))
						for _, one := range asked {
							method, item, _ := strings.Cut(one, " ")
							switch {
							case method == "tools/call":
								steps = append(steps, client.Step{Method: method, Params: map[string]any{"name": "draft__" + item}})
							case item != "":
								steps = append(steps, about(method, "draft+"+item))
							default:
								steps = append(steps, client.Step{Method: method})
							}
						}
						outcomes := c(t, append(steps, about("resources/metadata", "draft+file:///none")))
						for i, one := range asked {
							var want map[string]any
							if err := json.Unmarshal([]byte(`{`+strings.ReplaceAll(answers[one], `"file:`, `"draft+file:`)+`}`), &want); err != nil {
								t.Fatal(err)
							}
							if diff := cmp.Diff(want, outcomes[i].result); diff != "" {
								t.Errorf("%s: %v (-want +got):\n%s", one, outcomes[i].fault, diff)
							}
						}
						if f := outcomes[len(asked)].fault; f == nil || !strings.HasSuffix(f.Message, "gone") || !strings.Contains(string(f.Data), `"draft+file:///none"`) {
							t.Errorf("metadata of a missing resource: %v", f)
						}
					})
				}
				for _, list := range server.requests("resources/list") {
					if strings.Contains(list, "draft+") {
						t.Errorf("the server received %s", list)
					}
				}
			})
		}
	}
}
