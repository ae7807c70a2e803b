package metatool

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/results"
	"mcpgateway/internal/wire"
)

// Results are the long results that a gateway keeps.
type Results struct {
	Store results.Store
	// Max returns how many bytes one answer has at most in a profile.
	Max func(profile string) int
	// Failed is called with the reason why a result cannot be read for now.
	Failed func(c *call.Call, err error)
}

// resultItems are the own items of a profile with a bound on results: the tool that reads on, and
// the template of the URIs of results.
func resultItems() []profile.OwnItem {
	return []profile.OwnItem{
		{Kind: call.Tool, Definition: definition(results.ReadTool), Meta: true},
		{Kind: call.Template, Definition: wire.Raw(`{"name":"result","title":"Long result","uriTemplate":"` + results.Template +
			`","description":"A long result of a tool, of which you were shown the beginning. Without a query it is the whole result; part is the number of one of its parts. ` +
			`pointer is a JSON Pointer, lines are like 1-200, range are bytes like 0-4095, grep is a regular expression (RE2) and context the number of lines around its matches."}`)},
	}
}

// errUnread answers for a result that cannot be read for now. Why is not for clients: it may have addresses.
var errUnread = wire.Errorf(wire.CodeInternal, "the result cannot be read: it is not kept here, and the store that the gateway shares with its replicas has not answered; try again later").
	WithData(wire.Raw(`{"reason":"the store of the replicas has not answered","retryable":true}`))

// read returns the piece of a result that a URI and arguments ask for. max is 0 for the URI
// alone, which means all of it. wrong says what is wrong with the request in words for a model.
func (in *invocation) read(ctx context.Context, uri string, add func(*results.Query) string, max int) (p results.Piece, id, wrong string, err error) {
	id, rest, ok := results.ParseURI(uri)
	if !ok {
		return p, "", "", call.ErrNoItem
	}
	who := in.call.Principal
	d, err := in.tools.Results.Store.Get(ctx, results.Owner{Identity: who.Identity(), Profile: who.Profile}, id)
	switch {
	case errors.Is(err, results.ErrUnknown):
		return p, "", "", call.ErrNoItem
	case ctx.Err() != nil:
		return p, "", "", ctx.Err()
	case err != nil:
		in.tools.Results.Failed(in.call, err)
		return p, "", "", errUnread
	}
	if !in.mayUse(d.Items) {
		return p, "", "", call.ErrNoItem
	}
	q, err := results.ParseQuery(rest)
	if err != nil {
		return p, id, err.Error(), nil
	}
	if wrong = add(&q); wrong != "" {
		return p, id, wrong, nil
	}
	if p, err = d.Read(ctx, &q, max); err == nil || ctx.Err() != nil {
		return p, id, "", err
	}
	return p, id, err.Error(), nil
}

// mayUse reports whether the caller may use, by the rules of now, all items that gave a result.
func (in *invocation) mayUse(items []results.Item) bool {
	return !slices.ContainsFunc(items, func(i results.Item) bool {
		return !in.view.MayUse(call.KindOf(i.Kind), i.Upstream, i.Name, i.Native)
	})
}

// readResource answers resources/read of a result. If a piece had to be cut short, a second
// element says so.
func (in *invocation) readResource(ctx context.Context) (call.Result, error) {
	uri := in.target.Public
	piece, id, wrong, err := in.read(ctx, uri, func(*results.Query) string { return "" }, in.tools.Results.Max(in.call.Principal.Profile))
	switch {
	case err != nil:
		return call.Result{}, err
	case wrong != "":
		return call.Result{}, wire.Errorf(wire.CodeInvalidParams, "%s", wrong).WithData(wire.SetMember(wire.Raw(`{}`), "uri", wire.String(uri)))
	}
	raw := make(wire.Raw, 0, len(piece.Text)+len(piece.Text)/8+base64.StdEncoding.EncodedLen(len(piece.Blob))+2*len(uri)+len(piece.Outline)+1024)
	raw = appendContents(append(raw, `{"contents":[`...), uri, &piece)
	for i := range piece.Blobs {
		raw = appendContents(append(raw, ','), partURI(id, piece.Blobs[i].Part), &piece.Blobs[i])
	}
	if piece.Next != "" {
		next := results.Scheme + "//" + id + piece.Next
		raw = wire.AppendString(append(raw, `,{"uri":`...), next)
		raw = append(raw, `,"mimeType":"text/plain","text":`...)
		raw = append(wire.AppendString(raw, "["+shown(&piece)+"Read on at "+next+"]"), '}')
	}
	return call.Result{Raw: append(raw, ']', '}')}, nil
}

// appendContents appends a piece as an element of the contents of a resource.
func appendContents(raw wire.Raw, uri string, p *results.Piece) wire.Raw {
	raw = append(wire.AppendString(append(raw, `{"uri":`...), uri), `,"mimeType":`...)
	raw = wire.AppendString(raw, p.MIMEType)
	if p.Blob != nil {
		return append(base64.StdEncoding.AppendEncode(append(raw, `,"blob":"`...), p.Blob), '"', '}')
	}
	return append(wire.AppendString(append(raw, `,"text":`...), string(p.Text)), '}')
}

// partURI returns the URI of a part of a result, of the whole for part 0.
func partURI(id string, part int) string {
	uri := results.Scheme + "//" + id
	if part > 0 {
		uri += "/" + strconv.Itoa(part)
	}
	return uri
}

// shown says what a piece is.
func shown(p *results.Piece) string {
	text := "This is " + p.Shown + ". "
	if p.Outline != "" {
		text += "Its structure:\n" + p.Outline
	}
	return text
}

// readResult answers the tool that reads results, for models whose host gives them no resources.
func (in *invocation) readResult(ctx context.Context) (call.Result, error) {
	uri, wrong := in.args.Get("uri").Str(), ""
	switch others := membersBeside(in.args, "uri", "lines", "pointer", "grep", "context", "range", "part"); {
	case uri == "":
		wrong = results.ReadTool + ` needs "uri": the URI of a long result, which begins with ` + results.Scheme + "//."
	case len(others) > 0:
		wrong = fmt.Sprintf("%s has no argument %s. It takes uri, lines, pointer, grep, context, range and part.", results.ReadTool, strings.Join(quoted(others, "`"), ", "))
	}
	if wrong != "" {
		return mistake("%s", wrong), nil
	}
	if !strings.Contains(uri, ":") { // the id alone
		uri = results.Scheme + "//" + uri
	}
	piece, id, wrong, err := in.read(ctx, uri, in.addArguments, in.tools.Results.Max(in.call.Principal.Profile))
	switch {
	case errors.Is(err, call.ErrNoItem):
		return mistake("There is no result %s. It may have expired, or its room was needed; call the tool again.", wire.String(plaintext.Clip(uri, maxNamed))), nil
	case err != nil:
		return call.Result{}, err
	case wrong != "":
		return mistake("%s", wrong), nil
	case piece.Blob != nil:
		return mistake("This is %s, of type %s, and no text. A program can read it as the resource %s.", piece.Shown, piece.MIMEType, partURI(id, piece.Part)), nil
	}
	note := shown(&piece)
	if piece.Next != "" {
		note += fmt.Sprintf(`Read on with {"uri": "%s//%s%s"}.`, results.Scheme, id, piece.Next)
	}
	raw := append(wire.Raw(`{"content":[`), content.TextBlock(string(piece.Text))...)
	raw = append(append(raw, ','), content.TextBlock("["+strings.TrimSpace(note)+"]")...)
	return call.Result{Raw: append(raw, ']', '}')}, nil
}

// addArguments adds the arguments of the tool to the query in its URI. Models often write numbers
// in place of texts.
func (in *invocation) addArguments(q *results.Query) (wrong string) {
	text := func(name string) string {
		switch v := in.args.Get(name); v.Kind() {
		case 0, 'n':
			return ""
		case '"':
			return v.Str()
		case '0':
			return string(v.Raw())
		default:
			wrong = fmt.Sprintf("`%s` must be a string.", name)
			return ""
		}
	}
	given := results.Arguments{Lines: text("lines"), Range: text("range"), Grep: text("grep"), Context: text("context")}
	if v := in.args.Get("pointer"); v.Exists() && v.Kind() != 'n' {
		pointer := text("pointer")
		given.Pointer = &pointer
	}
	if part := text("part"); part != "" {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return "`part` must be the number of a part, from 1."
		}
		q.Part = n
	}
	if wrong == "" {
		if err := q.Add(given); err != nil {
			return err.Error()
		}
		q.Bound()
	}
	return wrong
}
