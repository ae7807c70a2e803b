package credentials

import (
	"context"
	"net/url"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/oauthmeta"
)

// tokenSource obtains tokens of one kind for one upstream.
type tokenSource interface {
	// token returns the token for a request of a principal, nil for none. principal is nil for
	// requests that belong to no principal.
	token(ctx context.Context, principal *call.Principal) (*token, error)
	// refuse says that the server has refused the token of a request, "" if it had none.
	// It reports whether to send the request again with another token.
	refuse(ctx context.Context, principal *call.Principal, access string, c oauthmeta.Challenge) (again bool, err error)
}

// tokenParams are parameters of token requests.
type tokenParams struct {
	scopes   []string
	resource string // "" for none
	audience string
}

// form returns the parameters of a token request.
func (a tokenParams) form(grant string) url.Values {
	form := url.Values{"grant_type": {grant}}
	if len(a.scopes) > 0 {
		form.Set("scope", strings.Join(a.scopes, " "))
	}
	if a.resource != "" {
		form.Set("resource", a.resource)
	}
	if a.audience != "" {
		form.Set("audience", a.audience)
	}
	return form
}
