package credentials

import (
	"context"

	"mcpgateway/internal/call"
	"mcpgateway/internal/oauthmeta"
)

// clientCredentials obtains the gateway's own tokens with the client credentials grant
// (RFC 6749, section 4.4; the extension
// io.modelcontextprotocol/oauth-client-credentials). All principals share them.
type clientCredentials struct {
	from   *authority
	params tokenParams
	cache  *tokenCache
}

const gatewayKey = "own"

func (o *clientCredentials) token(ctx context.Context, _ *call.Principal) (*token, error) {
	return o.cache.get(ctx, gatewayKey, func(ctx context.Context) (*token, error) {
		e, err := o.from.endpoint(ctx)
		if err != nil {
			return nil, err
		}
		return e.request(ctx, o.params.form("client_credentials"))
	})
}

func (o *clientCredentials) refuse(_ context.Context, _ *call.Principal, access string, _ oauthmeta.Challenge) (bool, error) {
	return o.cache.refuse(gatewayKey, access, errNewTokenRefused), nil
}
