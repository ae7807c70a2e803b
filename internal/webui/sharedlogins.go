package webui

import (
	"context"
	"encoding/json"
	"time"

	"mcpgateway/internal/store"
)

// loginKind is the kind of logins in a store.
const loginKind = "console-login"

// idLength is the length of the ids of sessions.
const idLength = 26

// storedLogin is a session in a store.
type storedLogin struct {
	Until       time.Time `json:"until"`
	Owner       string    `json:"owner"`
	Credentials string    `json:"credentials"`
}

// shared returns the store of logins, nil if they are those of this process.
func (c *Console) shared() store.Values {
	if c.Public == nil {
		return nil
	}
	return c.Public.Shared
}

// openLogin begins a session and returns its id.
func (c *Console) openLogin(ctx context.Context, with session, now time.Time) (id string, err error) {
	to := c.shared()
	if to == nil {
		return c.sessions.open(now, with), nil
	}
	value, err := json.Marshal(storedLogin{now.Add(sessionLife), with.owner, with.credentials})
	if err != nil {
		return "", err
	}
	id = newSessionID()
	return id, to.Put(ctx, store.Key{Kind: loginKind, Name: id}, value, sessionLife)
}

// findLogin returns an open session.
func (c *Console) findLogin(ctx context.Context, id string, now time.Time) (session, bool) {
	from := c.shared()
	if from == nil {
		return c.sessions.get(id, now)
	}
	if len(id) != idLength { // no request of a stranger needs the store
		return session{}, false
	}
	values, err := from.Get(ctx, store.Key{Kind: loginKind, Name: id})
	var of storedLogin
	if err != nil || len(values) != 1 || values[0] == nil || json.Unmarshal(values[0], &of) != nil {
		return session{}, false
	}
	return session{of.Until, of.Owner, of.Credentials}, now.Before(of.Until)
}

// endLogin ends a session.
func (c *Console) endLogin(ctx context.Context, id string) error {
	c.sessions.close(id)
	if from := c.shared(); from != nil && len(id) == idLength {
		return from.Delete(ctx, store.Key{Kind: loginKind, Name: id})
	}
	return nil
}
