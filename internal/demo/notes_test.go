package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestNotes(t *testing.T) {
	for era, revision := range eras {
		t.Run(era, func(t *testing.T) {
			session := connect(t, find(t, "notes"), revision, nil)
			t.Run("add", func(t *testing.T) {
				res := call(t, session, &mcp.CallToolParams{Name: "add", Arguments: map[string]any{"title": "Ünder the  Sea!", "body": "fish"}})
				want := map[string]any{"uri": "note:///nder-the-sea", "slug": "nder-the-sea", "replaced": false}
				if diff := cmp.Diff(want, res.StructuredContent); diff != "" {
					t.Errorf("structured content (-want +got):\n%s", diff)
				}
				if link, ok := res.Content[1].(*mcp.ResourceLink); !ok || link.URI != "note:///nder-the-sea" {
					t.Errorf("second block is %+v, want a link to the note", res.Content[1])
				}
			})
			t.Run("search", func(t *testing.T) {
				res := call(t, session, &mcp.CallToolParams{Name: "search", Arguments: map[string]any{"query": "FISH"}})
				want := map[string]any{"matches": []any{map[string]any{"uri": "note:///nder-the-sea", "title": "Ünder the  Sea!"}}}
				if diff := cmp.Diff(want, res.StructuredContent); diff != "" {
					t.Errorf("structured content (-want +got):\n%s", diff)
				}
			})
			t.Run("output schemas", func(t *testing.T) {
				tools, err := session.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, tool := range tools.Tools {
					if tool.OutputSchema == nil {
						t.Errorf("%s has no output schema", tool.Name)
					}
				}
			})
			t.Run("lists", func(t *testing.T) {
				resources, err := session.ListResources(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				got := make(map[string]string)
				for _, r := range resources.Resources {
					got[r.URI] = r.MIMEType
				}
				want := map[string]string{
					"note:///": "inode/directory", "note:///welcome": noteMIME, "note:///shopping": noteMIME, "note:///nder-the-sea": noteMIME,
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("resources (-want +got):\n%s", diff)
				}
				templates, err := session.ListResourceTemplates(t.Context(), nil)
				if err != nil || len(templates.ResourceTemplates) != 1 || templates.ResourceTemplates[0].URITemplate != noteTemplate {
					t.Errorf("templates: %+v, %v", templates, err)
				}
			})
			t.Run("read", func(t *testing.T) {
				one, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note:///nder-the-sea"})
				if err != nil || len(one.Contents) != 1 || one.Contents[0].Text != "fish" {
					t.Errorf("a note: %+v, %v", one, err)
				}
				all, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: collectionURI})
				if err != nil || len(all.Contents) != 3 {
					t.Errorf("the collection: %+v, %v; want three notes", all, err)
				}
				if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note:///none"}); err == nil {
					t.Error("a note that is not there was read")
				}
			})
			t.Run("prompt", func(t *testing.T) {
				res, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "summarize", Arguments: map[string]string{"note": "welcome"}})
				if err != nil {
					t.Fatal(err)
				}
				if embedded, ok := res.Messages[1].Content.(*mcp.EmbeddedResource); !ok || embedded.Resource.URI != "note:///welcome" {
					t.Errorf("second message is %+v, want the note embedded", res.Messages[1].Content)
				}
				for _, args := range []map[string]string{{}, {"note": "none"}, {"note": "welcome", "style": "rude"}} {
					if _, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "summarize", Arguments: args}); err == nil {
						t.Errorf("arguments %v were accepted", args)
					}
				}
			})
		})
	}
}

func TestNotesCompletion(t *testing.T) {
	prompt := &mcp.CompleteReference{Type: "ref/prompt", Name: "summarize"}
	template := &mcp.CompleteReference{Type: "ref/resource", URI: noteTemplate}
	tests := []struct {
		name      string
		ref       *mcp.CompleteReference
		arg, text string
		want      []string
	}{
		{"notes of the prompt", prompt, "note", "", []string{"shopping", "welcome"}},
		{"slugs of the template", template, "slug", "w", []string{"welcome"}},
		{"only from the beginning", template, "slug", "elcome", []string{}},
		{"styles", prompt, "style", "b", []string{"brief", "bullets"}},
		{"nothing fits", prompt, "style", "z", []string{}},
		{"unknown argument", prompt, "color", "", []string{}},
		{"argument of the other reference", template, "style", "", []string{}},
	}
	session := connect(t, find(t, "notes"), legacyRevision, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := session.Complete(t.Context(), &mcp.CompleteParams{Ref: tt.ref, Argument: mcp.CompleteParamsArgument{Name: tt.arg, Value: tt.text}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, res.Completion.Values); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompletionIsBounded(t *testing.T) {
	var candidates []string
	for i := range maxCompletions + 1 {
		candidates = append(candidates, fmt.Sprint("v", i))
	}
	got := completion(candidates, "v").Completion
	if len(got.Values) != maxCompletions || !got.HasMore || got.Total != maxCompletions+1 {
		t.Errorf("got %d values, hasMore %t, total %d", len(got.Values), got.HasMore, got.Total)
	}
}

func TestNotesNotifyLegacyClients(t *testing.T) {
	listChanged := make(chan struct{}, 8)
	updated := make(chan string, 8)
	session := connect(t, find(t, "notes"), legacyRevision, &mcp.ClientOptions{
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { listChanged <- struct{}{} },
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			updated <- req.Params.URI
		},
	})
	if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note:///welcome"}); err != nil {
		t.Fatal(err)
	}
	call(t, session, &mcp.CallToolParams{Name: "add", Arguments: map[string]any{"title": "Welcome", "body": "b"}})
	if got := <-updated; got != "note:///welcome" {
		t.Errorf("updated %s, want note:///welcome", got)
	}
	<-listChanged
}

// The test uses lines: the SDK's client does not report when its listen stream is open.
func TestNotesNotifyModernClients(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	w := startWire(t.Context(), t, "notes")
	w.send(`{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":{` + meta +
		`,"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["note:///welcome"]}}}`)
	if got := w.receive().Method; got != "notifications/subscriptions/acknowledged" {
		t.Fatalf("first message is %s, want the acknowledgement", got)
	}
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + meta + `,"name":"add","arguments":{"title":"Welcome","body":"b"}}}`)
	awaited := map[string]bool{"notifications/resources/updated": true, "notifications/resources/list_changed": true}
	for len(awaited) > 0 {
		delete(awaited, w.receive().Method)
	}
	w.in.Close()
	if _, err := io.Copy(io.Discard, w.out); err != nil {
		t.Errorf("reading to the end: %v", err)
	}
	if err := w.wait(); err != nil {
		t.Errorf("wait: %v", err)
	}
}

func TestBookIsBounded(t *testing.T) {
	tests := []struct {
		name, title, body, want string
	}{
		{"no name", " !? ", "b", `title "!?" has no letter or digit: a note needs one to be named by`},
		{"long title", strings.Repeat("é", maxTitleLen) + "e", "b", "title has 81 characters, at most 80 are allowed"},
		{"long body", "t", strings.Repeat("b", maxBodyBytes+1), "body has 16385 bytes, at most 16384 are allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := newBook().put(tt.title, tt.body); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	t.Run("full", func(t *testing.T) {
		b := newBook()
		for i := range maxNotes {
			if _, _, err := b.put(fmt.Sprint(i), ""); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := b.put("more", ""); err == nil || err.Error() != "the book is full: it holds at most 200 notes" {
			t.Errorf("got %v, want that the book is full", err)
		}
		if _, replaced, err := b.put("7", "new"); err != nil || !replaced {
			t.Errorf("replacing in a full book: %t, %v", replaced, err)
		}
	})
}
