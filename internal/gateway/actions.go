package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/pins"
	"mcpgateway/internal/webui"
	"mcpgateway/internal/wire"
)

// heldDefinitions returns the definitions that pins hide, for the console.
func (g *Gateway) heldDefinitions() (held []webui.HeldTools, pinned bool, err error) {
	for _, e := range g.generation.Load().entries {
		if e.pins == nil {
			continue
		}
		pinned = true
		tools, err := e.pins.Review(e.name, e.listedTools())
		if err != nil {
			return nil, true, err
		}
		if len(tools) > 0 {
			held = append(held, webui.HeldTools{Upstream: e.name, Tools: tools})
		}
	}
	return held, pinned, nil
}

// listedTools returns the tools that the upstream lists in this run.
func (e *upstreamEntry) listedTools() []wire.Raw { return e.active.Load().snapshot().Catalog.Tools }

// decideDefinition accepts or refuses a definition for the console, and publishes what was accepted.
func (g *Gateway) decideDefinition(_ context.Context, upstream, tool, digest string, accept bool) error {
	e := g.generation.Load().entry(upstream)
	if e == nil || e.pins == nil {
		return pins.ErrNotHeld
	}
	if err := e.pins.Decide(upstream, e.listedTools(), tool, digest, accept); err != nil {
		return err
	}
	g.requestRebuild()
	return nil
}

// listedGrants returns the grants of users for the console.
func (g *Gateway) listedGrants(ctx context.Context) ([]webui.StoredGrant, error) {
	cfg := g.generation.Load().cfg
	all, err := g.grants.list(ctx, cfg)
	if err != nil {
		return nil, err
	}
	out := make([]webui.StoredGrant, len(all))
	for i, of := range all {
		out[i] = webui.StoredGrant{
			ID: grantID(of), Upstream: of.Upstream, Local: of.Local, Subject: of.Subject, PrincipalIssuer: of.PrincipalIssuer, Proof: of.AuthMethod,
			Issuer: of.Issuer, Scopes: of.Scopes, Since: of.Given, Used: of.Used, Expires: of.Expires, Renewable: of.Renewable,
			Configured: takesGrants(cfg, of.Upstream),
		}
	}
	return out, nil
}

// takesGrants reports whether an upstream of a configuration takes grants of users.
func takesGrants(cfg *config.Config, upstream string) bool {
	for _, u := range cfg.Upstreams {
		if u.Name == upstream {
			return u.Auth.Kind == config.CredentialUser
		}
	}
	return false
}

// grantID names a grant in a form. It says nothing about it.
func grantID(g credentials.Grant) string {
	parts := []string{g.Upstream, g.URL, fmt.Sprint(g.Local), g.Subject, g.PrincipalIssuer, g.AuthMethod}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// revokeStoredGrant removes a grant for the console, revokes it at its authorization server, and logs that with the id of the
// request. Calls stop using it immediately.
func (g *Gateway) revokeStoredGrant(ctx context.Context, request, id string) (webui.Revoked, error) {
	all, err := g.grants.list(ctx, g.generation.Load().cfg)
	if err != nil {
		return webui.Revoked{}, err
	}
	for _, of := range all {
		if grantID(of) != id {
			continue
		}
		out := webui.Revoked{Upstream: of.Upstream, Issuer: of.Issuer}
		var untold error
		if source := g.credentialsOf(of.Upstream); source != nil && source.IsFor(of) {
			out.AtIssuer, untold, err = source.Revoke(ctx, of)
		} else {
			err = g.grants.Forget(ctx, of) // nothing of this configuration can ask its server
		}
		if err != nil {
			return out, err
		}
		fields := []zap.Field{zap.String("upstream", of.Upstream), zap.String("principal", of.Subject), zap.String("request", request)}
		if untold != nil {
			g.log.Info("a grant was removed, and its authorization server does not know", append(fields, zap.Error(untold))...)
		} else {
			g.log.Info("a grant was revoked in the console", append(fields, zap.Bool("revoked", out.AtIssuer))...)
		}
		g.principals.ExpireGatherings()
		return out, nil
	}
	return webui.Revoked{}, webui.ErrNoGrant
}
