package credentials

import (
	"context"
	"crypto/sha256"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mcpgateway/internal/call"
	"mcpgateway/internal/oauthmeta"
)

const tokenTypePrefix = "urn:ietf:params:oauth:token-type:"

var errNoToken = failf("this server requires a token of the caller, and the caller did not authenticate with an access token that can be exchanged")

// exchangedTokens are the tokens that are issued in exchange for those of principals. Requests
// without a principal use the gateway's own token, if it has client credentials, and no token
// otherwise.
type exchangedTokens struct {
	// exchange returns a token for that of a principal.
	exchange func(ctx context.Context, subjectToken string) (*token, error)
	fallback *clientCredentials // for requests without a principal; nil: they carry no token
	cache    *tokenCache
	latest   *latestTokens
}

func (x *exchangedTokens) token(ctx context.Context, principal *call.Principal) (*token, error) {
	if principal == nil {
		if x.fallback == nil {
			return nil, nil
		}
		return x.fallback.token(ctx, nil)
	}
	principal = x.latest.withLatest(principal, x.cache.now())
	subjectToken := principal.Token.Reveal()
	if subjectToken == "" {
		return nil, errNoToken
	}
	return x.cache.get(ctx, subjectKey(principal), func(ctx context.Context) (*token, error) { return x.exchange(ctx, subjectToken) })
}

func (x *exchangedTokens) refuse(ctx context.Context, principal *call.Principal, access string, c oauthmeta.Challenge) (bool, error) {
	switch {
	case principal != nil:
		return x.cache.refuse(subjectKey(x.latest.withLatest(principal, x.cache.now())), access, errNewTokenRefused), nil
	case x.fallback != nil:
		return x.fallback.refuse(ctx, nil, access, c)
	}
	return false, nil
}

// subjectKey is the cache key of an exchanged token. It includes the principal's token,
// since another token of the same principal may have other rights.
func subjectKey(principal *call.Principal) string {
	sum := sha256.Sum256([]byte(principal.Identity() + "\x00" + principal.Token.Reveal()))
	return string(sum[:])
}

// tokenExchange exchanges the tokens of principals at one authorization server (RFC 8693).
type tokenExchange struct {
	from        *authority
	params      tokenParams
	subjectType string // the type of the principals' tokens
}

func (x *tokenExchange) exchange(ctx context.Context, subjectToken string) (*token, error) {
	e, err := x.from.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	form := x.params.form(oauthex.GrantTypeTokenExchange)
	form.Set("subject_token", subjectToken)
	form.Set("subject_token_type", x.subjectType)
	t, err := e.request(ctx, form)
	if err != nil {
		return nil, err
	}
	if t.access == subjectToken {
		return nil, failf("%s returned the caller's own token, which is not for this server", e.what)
	}
	return t, nil
}
