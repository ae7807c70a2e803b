package credentials

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// enterpriseManaged obtains tokens through an enterprise's identity provider (the
// extension io.modelcontextprotocol/enterprise-managed-authorization). The provider
// exchanges the principal's token for an ID-JAG, a grant for the upstream's authorization
// server, which issues the token.
//
//	principal's token ──exchange──▶ idp ──ID-JAG──▶ authorization server ──▶ token
type enterpriseManaged struct {
	idp         *authority
	from        *authority // its Issuer is set
	params      tokenParams
	subjectType string // the type of the principals' tokens
}

const grantAssertion = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523, section 2.1

func (n *enterpriseManaged) exchange(ctx context.Context, subjectToken string) (*token, error) {
	grant, err := n.grant(ctx, subjectToken)
	if err != nil {
		return nil, err
	}
	e, err := n.from.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	form := n.params.form(grantAssertion)
	form.Set("assertion", grant)
	return e.request(ctx, form)
}

// grant returns the ID-JAG for the upstream's authorization server.
func (n *enterpriseManaged) grant(ctx context.Context, subjectToken string) (string, error) {
	e, err := n.idp.endpoint(ctx)
	if err != nil {
		return "", err
	}
	form := n.params.form(oauthex.GrantTypeTokenExchange)
	form.Set("requested_token_type", oauthex.TokenTypeIDJAG)
	form.Set("audience", n.from.Issuer)
	form.Set("subject_token", subjectToken)
	form.Set("subject_token_type", n.subjectType)
	t, err := e.request(ctx, form)
	if err != nil {
		return "", err
	}
	if t.kind != oauthex.TokenTypeIDJAG || t.access == subjectToken {
		return "", failf("%s returned something other than an ID-JAG", e.what)
	}
	return t.access, nil
}
