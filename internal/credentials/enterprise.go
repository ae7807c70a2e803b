package credentials

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mcpgateway/internal/call"
)

// enterprise are tokens by the word of an enterprise's identity provider (the
// extension io.modelcontextprotocol/enterprise-managed-authorization): that makes
// out of the principal's token a grant for the upstream's authorization server, and
// that one gives a token for it.
//
//	principal's token ──exchange──▶ idp ──ID-JAG──▶ authorization server ──▶ token
type enterprise struct {
	idp  *authority
	from *authority // has an issuer
	ask  ask
	// subject is the type of principals' tokens.
	subject string
	own     *own // nil for none
	kept    *cache
	brought freshest
}

const grantAssertion = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523, section 2.1

func (n *enterprise) token(ctx context.Context, who *call.Principal) (*token, error) {
	if who == nil {
		if n.own == nil {
			return nil, nil
		}
		return n.own.token(ctx, nil)
	}
	who = n.brought.of(who, n.kept.now())
	if who.Token.Reveal() == "" {
		return nil, errNoToken
	}
	return n.kept.get(ctx, subjectKey(who), func(ctx context.Context) (*token, error) {
		grant, err := n.grant(ctx, who.Token.Reveal())
		if err != nil {
			return nil, err
		}
		e, err := n.from.endpoint(ctx)
		if err != nil {
			return nil, err
		}
		form := n.ask.form(grantAssertion)
		form.Set("assertion", grant)
		return e.request(ctx, form)
	})
}

// grant gets the grant for the upstream's authorization server.
func (n *enterprise) grant(ctx context.Context, brought string) (string, error) {
	e, err := n.idp.endpoint(ctx)
	if err != nil {
		return "", err
	}
	form := n.ask.form(oauthex.GrantTypeTokenExchange)
	form.Set("requested_token_type", oauthex.TokenTypeIDJAG)
	form.Set("audience", n.from.Issuer)
	form.Set("subject_token", brought)
	form.Set("subject_token_type", n.subject)
	t, err := e.request(ctx, form)
	if err != nil {
		return "", err
	}
	if t.kind != oauthex.TokenTypeIDJAG || t.access == brought {
		return "", failf("%s gave no grant of the kind that was asked for (ID-JAG)", e.what)
	}
	return t.access, nil
}

func (n *enterprise) refuse(ctx context.Context, who *call.Principal, access string, c challenge) (bool, error) {
	switch {
	case who != nil:
		return n.kept.refuse(subjectKey(n.brought.of(who, n.kept.now())), access), nil
	case n.own != nil:
		return n.own.refuse(ctx, nil, access, c)
	}
	return false, nil
}
