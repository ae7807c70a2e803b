package credentials

import (
	"context"
	"net/url"
	"strings"

	"mcpgateway/internal/call"
)

// tokens are tokens of one kind, for one upstream.
type tokenSource interface {
	// token returns what a request for who carries, nil for nothing. who is nil for
	// requests that the gateway makes on its own behalf.
	token(ctx context.Context, who *call.Principal) (*token, error)
	// refuse says that the server has refused a token that was sent for who, "" if
	// none was. It reports whether to try again with another; the error says what
	// stands against it.
	refuse(ctx context.Context, who *call.Principal, access string, c challenge) (again bool, err error)
}

// ask is what tokens are asked for.
type tokenParams struct {
	scopes   []string
	resource string // "" for none
	audience string
}

// form returns the parameters of a request for a token.
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

// own are tokens of the gateway itself, whoever calls: the client credentials grant
// (RFC 6749, section 4.4; the extension io.modelcontextprotocol/oauth-client-credentials).
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
