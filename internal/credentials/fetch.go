package credentials

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"mcpgateway/internal/oauthmeta"
	"mcpgateway/internal/wire"
)

// maxDepth bounds the nesting of servers' documents.
const maxDepth = 32

// answer is an HTTP response. Its body has no duplicate keys.
type answer struct {
	oauthmeta.Document
	from string // the URL without the parts that may be secret
}

// fetch fetches a document. what names it in errors.
func (g *guard) fetch(ctx context.Context, what string, at *url.URL) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return answer{}, failf("%s has no URL", what).because(err)
	}
	return g.send(g.client(true), what, req)
}

// send sends a request and returns the response with any status.
func (g *guard) send(client *http.Client, what string, req *http.Request) (answer, error) {
	if err := g.check(req.URL); err != nil {
		return answer{}, refusedURL(what, req.URL.String(), err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mcpgateway")
	resp, err := client.Do(req)
	if err != nil {
		if req.Context().Err() != nil {
			return answer{}, req.Context().Err()
		}
		return answer{}, unreachable(what, req.URL, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body) // bounded by the client
	switch {
	case err != nil:
		return answer{}, unreachable(what, req.URL, err)
	case len(data) > maxDocument:
		return answer{}, failf("%s sends more than %d bytes", what, maxDocument)
	}
	a := answer{Document: oauthmeta.Document{Status: resp.StatusCode}, from: withoutQuery(req.URL)}
	if mt, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && (mt == "application/json" || strings.HasSuffix(mt, "+json")) &&
		wire.Check(data, wire.Limits{Depth: maxDepth}, wire.Strict) == nil && wire.ValueOf(data).Kind() == '{' {
		a.Body = wire.ValueOf(data)
	}
	return a, nil
}

// refusal is the error for a response with an error status. It contains the error code of
// the body and nothing else, since the body may repeat the request.
func (a answer) refusal(what string) *Error {
	e := failf("%s answered HTTP %d", what, a.Status)
	if e.code = a.code(); e.code != "" {
		e.text += " (" + e.code + ")"
	}
	e.temporary = isTemporary(a.Status)
	return e.because(fmt.Errorf("its URL is %s", a.from))
}

// code returns the error code of the body (RFC 6749, section 5.2), "" if it has none.
func (a answer) code() string {
	code := a.Body.Get("error").Str()
	if len(code) > 64 || strings.ContainsFunc(code, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.')
	}) {
		return ""
	}
	return code
}
