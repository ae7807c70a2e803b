package credentials

import (
	"context"
	"net/url"
	"strings"

	"mcpgateway/internal/call"
)

// tokenSource obtains tokens of one kind for one upstream.
type tokenSource interface {
	// token returns the token for a request of a principal, nil for none. who is nil for
	// requests that belong to no principal.
	token(ctx context.Context, who *call.Principal) (*token, error)
	// refuse says that the server has refused the token of a request, "" if it had none.
	// It reports whether to send the request again with another token.
	refuse(ctx context.Context, who *call.Principal, access string, c challenge) (again bool, err error)
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

// clientCredentials obtains the gateway's own tokens with the client credentials grant
// (RFC 6749, section 4.4; the extension
// io.modelcontextprotocol/oauth-client-credentials). All principals share them.
type clientCredentials struct {
	from  *authority
	ask   tokenParams
	cache *cache
}

const gatewayKey = "own"

func (o *clientCredentials) token(ctx context.Context, _ *call.Principal) (*token, error) {
	return o.cache.get(ctx, gatewayKey, func(ctx context.Context) (*token, error) {
		e, err := o.from.endpoint(ctx)
		if err != nil {
			return nil, err
		}
		return e.request(ctx, o.ask.form("client_credentials"))
	})
}

func (o *clientCredentials) refuse(_ context.Context, _ *call.Principal, access string, _ challenge) (bool, error) {
	return o.cache.refuse(gatewayKey, access), nil
}
