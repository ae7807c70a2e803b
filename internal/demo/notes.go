package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	collectionURI = "note:///"
	noteTemplate  = "note:///{slug}"
	noteMIME      = "text/markdown"
)

// summaryStyles are the values of the summarize prompt's style argument.
var summaryStyles = []string{"brief", "bullets", "detailed"}

// notesServer binds a book to the SDK's server.
type notesServer struct {
	server *mcp.Server
	book   *book
}

func newNotes() Server {
	n := &notesServer{book: newBook(
		note{Slug: "welcome", Title: "Welcome", Body: "# Welcome\n\nThese notes live in the gateway's memory. Add one with the `add` tool and watch the resource list change.\n"},
		note{Slug: "shopping", Title: "Shopping", Body: "# Shopping\n\n- coffee\n- oat milk\n- a clock that is right twice a day\n"},
	)}
	n.server = mcp.NewServer(&mcp.Implementation{Name: "notes", Title: "Notes", Version: version}, &mcp.ServerOptions{
		Instructions:      "Notes that live as long as the gateway runs. Every note is a resource; search finds one, add writes one.",
		CompletionHandler: n.complete,
		// Every URI may be subscribed to, also one whose note does not exist
		// yet; the SDK keeps the list of who subscribed.
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})

	n.server.AddResource(&mcp.Resource{
		URI: collectionURI, Name: "notes", Title: "All notes",
		Description: "A collection: reading it gives every note.",
		MIMEType:    "inode/directory",
	}, n.readAll)
	for _, each := range n.book.all() {
		n.publish(each)
	}
	n.server.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: noteTemplate, Name: "note", Title: "A note by its slug", MIMEType: noteMIME,
	}, n.read)
	n.server.AddPrompt(&mcp.Prompt{
		Name: "summarize", Title: "Summarize a note",
		Description: "Asks for a summary of one note, which is embedded.",
		Arguments: []*mcp.PromptArgument{
			{Name: "note", Title: "Note", Description: "the note's slug", Required: true},
			{Name: "style", Title: "Style", Description: strings.Join(summaryStyles, ", ")},
		},
	}, n.summarize)
	mcp.AddTool(n.server, &mcp.Tool{
		Name: "add", Title: "Add a note",
		Description: "Writes a note. A note whose title reads the same is replaced.",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: new(true), OpenWorldHint: new(false)},
	}, n.add)
	mcp.AddTool(n.server, &mcp.Tool{
		Name: "search", Title: "Search the notes",
		Description: "Finds the notes that contain a text.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)},
	}, n.search)

	return Server{
		Name: "notes", Title: "Notes",
		Description: "notes as resources, with a template, completion, a prompt and list changes",
		server:      n.server,
	}
}

// publish lists a note as a resource. Listing it again is harmless: it notifies the
// sessions that the list has changed.
func (n *notesServer) publish(each note) {
	n.server.AddResource(&mcp.Resource{
		URI: each.uri(), Name: each.Slug, Title: each.Title, MIMEType: noteMIME, Size: int64(len(each.Body)),
	}, n.read)
}

func (n *notesServer) read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	slug, _ := strings.CutPrefix(req.Params.URI, collectionURI)
	found, ok := n.book.get(slug)
	if !ok {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{found.contents()}}, nil
}

func (n *notesServer) readAll(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	res := &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}}
	for _, each := range n.book.all() {
		res.Contents = append(res.Contents, each.contents())
	}
	return res, nil
}

func (n note) contents() *mcp.ResourceContents {
	return &mcp.ResourceContents{URI: n.uri(), MIMEType: noteMIME, Text: n.Body}
}

type addInput struct {
	Title string `json:"title" jsonschema:"the note's title; its slug is made from it"`
	Body  string `json:"body" jsonschema:"the note's text, Markdown"`
}

type addOutput struct {
	URI      string `json:"uri" jsonschema:"where the note is read"`
	Slug     string `json:"slug"`
	Replaced bool   `json:"replaced" jsonschema:"whether a note of that slug was there before"`
}

func (n *notesServer) add(ctx context.Context, _ *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, addOutput, error) {
	added, replaced, err := n.book.put(in.Title, in.Body)
	if err != nil {
		return nil, addOutput{}, err
	}
	n.publish(added)
	for _, uri := range []string{added.uri(), collectionURI} {
		if err := n.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
			return nil, addOutput{}, fmt.Errorf("the note %q is stored, but its subscribers could not be told: %w", added.Slug, err)
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: fmt.Sprintf("Stored %q.", added.Title)},
		&mcp.ResourceLink{URI: added.uri(), Name: added.Slug, Title: added.Title, MIMEType: noteMIME},
	}}, addOutput{URI: added.uri(), Slug: added.Slug, Replaced: replaced}, nil
}

type noteSearchInput struct {
	Query string `json:"query" jsonschema:"the text to look for, in any case"`
}

type noteMatch struct {
	URI   string `json:"uri"`
	Title string `json:"title"`
}

type noteSearchOutput struct {
	Matches []noteMatch `json:"matches"`
}

func (n *notesServer) search(_ context.Context, _ *mcp.CallToolRequest, in noteSearchInput) (*mcp.CallToolResult, noteSearchOutput, error) {
	out := noteSearchOutput{Matches: []noteMatch{}}
	for _, found := range n.book.search(in.Query) {
		out.Matches = append(out.Matches, noteMatch{URI: found.uri(), Title: found.Title})
	}
	return nil, out, nil
}

func (n *notesServer) summarize(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	slug := req.Params.Arguments["note"]
	found, ok := n.book.get(slug)
	if !ok {
		return nil, invalidParams("there is no note %q; completion of the argument lists them", slug)
	}
	style := req.Params.Arguments["style"]
	if style == "" {
		style = summaryStyles[0]
	}
	if !slices.Contains(summaryStyles, style) {
		return nil, invalidParams("style %q is none of %s", style, strings.Join(summaryStyles, ", "))
	}
	return &mcp.GetPromptResult{
		Description: "A " + style + " summary of " + found.Title,
		Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "Write a " + style + " summary of this note."}},
			{Role: "user", Content: &mcp.EmbeddedResource{Resource: found.contents()}},
		},
	}, nil
}

// complete offers slugs for the prompt's and the template's argument, styles for
// the prompt's other one, and nothing for unknown arguments.
func (n *notesServer) complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	var candidates []string
	ref, arg := req.Params.Ref, req.Params.Argument
	switch {
	case ref.Name == "summarize" && arg.Name == "note", ref.URI == noteTemplate && arg.Name == "slug":
		for _, each := range n.book.all() {
			candidates = append(candidates, each.Slug)
		}
	case ref.Name == "summarize" && arg.Name == "style":
		candidates = slices.Clone(summaryStyles)
	}
	return completion(candidates, arg.Value), nil
}
