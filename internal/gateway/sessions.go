package gateway

import (
	"crypto/sha256"
	"encoding/hex"

	"mcpgateway/internal/call"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// openSessions returns the sessions, streams and parked calls of clients, for the console.
func (g *Gateway) openSessions() *inspect.Sessions {
	now := g.front.Snapshot()
	out := &inspect.Sessions{}
	for _, s := range now.Sessions {
		out.Sessions = append(out.Sessions, inspect.ClientSession{
			ClientOf: shownClient(s.Client, s.Principal), Digest: shortDigest(s.ID), Since: s.Opened, Used: s.Used, Adopted: s.Adopted,
			Calls: s.Requests, Asks: s.Asks, Subscriptions: s.Subscriptions, Streams: s.Streams,
		})
	}
	for _, l := range now.Listens {
		out.Listens = append(out.Listens, inspect.ListenStream{
			ClientOf: shownClient(l.Client, l.Principal), Since: l.Opened, Lists: l.Lists, Resources: l.Resources, Tasks: l.Tasks,
		})
	}
	for _, p := range now.Parked {
		out.Parked = append(out.Parked, inspect.ParkedCall{
			ClientOf: shownClient(p.Client, p.Principal), Digest: shortDigest(p.ID), Request: p.Request, Method: p.Method, Item: plaintext.Clip(p.Item, maxShown),
			Since: p.Since, Expires: p.Expires, Round: p.Round, Asks: p.Asks,
		})
	}
	return out
}

// shownClient describes a client for a page.
func shownClient(c *call.Client, p *call.Principal) inspect.ClientOf {
	info := wire.ValueOf(c.Info)
	name, _ := info.Get("name").Text()
	version, _ := info.Get("version").Text()
	return inspect.ClientOf{
		Client: plaintext.Clip(name, maxShown), Version: plaintext.Clip(version, maxShown), Revision: string(c.Revision),
		Principal: plaintext.Clip(p.Subject, maxShown), Issuer: p.Issuer, Profile: p.Profile,
	}
}

// shortDigest returns a digest of a secret id, which distinguishes ids and does not reveal them.
func shortDigest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}
