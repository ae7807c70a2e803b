package gateway

import (
	"context"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/clientauth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/router"
	"mcpgateway/internal/webui"
	"mcpgateway/internal/wire"
)

// callWatcher keeps calls for the console. It implements router.Watcher.
type callWatcher struct{ g *Gateway }

// Watching implements router.Watcher.
func (w callWatcher) Watching() bool { return w.g.calls.Watching() }

// Ended implements router.Watcher.
func (w callWatcher) Ended(e *router.EndedCall) {
	c := e.Call
	name, _ := wire.ValueOf(c.Client.Info).Get("name").Text()
	w.g.calls.Add(inspect.Call{
		At: e.At, Duration: e.Duration, Request: strings.Clone(c.ID), Method: e.Method, Item: strings.Clone(e.Item), Upstream: e.Upstream, Rule: e.Rule,
		Outcome: e.Outcome, Reason: e.Reason, Principal: plaintext.Clip(strings.Clone(c.Principal.Subject), maxShown),
		Issuer: c.Principal.Issuer, Profile: c.Principal.Profile, Client: plaintext.Clip(name, maxShown), Remote: strings.TrimSuffix(c.Remote, ":0"),
		Trace: c.Trace.ID(), Own: e.Own, Stages: inspect.Stages(c.Trace),
	})
}

// maxShown bounds text of clients in a call on a page, in bytes.
const maxShown = 200

// newConsoles returns the console for the admin address, and makes the pages for people at the address of MCP. It
// returns nil if the configuration turns the console off.
func (g *Gateway) newConsoles() *webui.Console {
	o := webui.Options{
		Inspector: g.inspector, Status: g.Status, History: inspect.NewHistory(g.registry, g.routerMetrics.Slowest), Token: g.cfg.Admin.Token.Reveal(),
		Actions: g.cfg.Admin.Actions, Log: g.log,
		Pins:   webui.Pins{Held: g.heldDefinitions, Decide: g.decideDefinition},
		Grants: webui.Grants{List: g.listedGrants, Revoke: g.revokeStoredGrant},
		Call:   g.front.Call, Refused: g.adminRefused,
		Calls: &g.calls, Sessions: g.openSessions, Config: g.configuration,
		Assume: func(p *call.Principal, profile string) (*call.Principal, []string, string, error) {
			return clientauth.Assume(g.generation.Load().cfg, p, profile)
		},
	}
	if g.auth != nil {
		o.Examine = g.examine
	}
	g.public = g.newPublicUI(o)
	if g.cfg.Admin.UI == config.UIOff {
		return nil
	}
	return webui.New(o)
}

// examine judges credentials that a person pasted into a page.
func (g *Gateway) examine(ctx context.Context, text, profile string) *webui.Examined {
	x := g.auth.Examine(ctx, text, endpoint.IDOf(profile))
	out := &webui.Examined{Accepted: x.Reason == "", Message: x.Message}
	for _, c := range x.Checks {
		out.Checks = append(out.Checks, webui.CredentialCheck{Name: c.Name, Value: c.Value, Expected: c.Expected, Result: string(c.Result)})
	}
	if x.Principal != nil {
		var remark, refused string
		if out.Principal, remark, refused = clientauth.InProfile(g.generation.Load().cfg, x.Principal, x.Profiles, profile); remark != "" {
			out.Remarks = []string{remark}
		}
		if refused != "" && out.Accepted {
			out.Accepted, out.Message = false, refused
		}
	}
	return out
}

// configuration returns the configuration in force for the console.
func (g *Gateway) configuration() *webui.Configuration {
	cfg := g.generation.Load().cfg
	out := &webui.Configuration{}
	for _, s := range cfg.Settings() {
		out.Settings = append(out.Settings, webui.Setting{Path: s.Path, Value: g.secrets.Mask(s.Value), Default: s.Default})
	}
	for _, w := range cfg.Warnings {
		out.Warnings = append(out.Warnings, g.secrets.Mask(w.String()))
	}
	return out
}
