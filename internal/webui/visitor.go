package webui

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/store"
)

// MePrefix is the path of the pages at the address of MCP on which users see their own data.
const MePrefix = "/me"

// Public connects a console with the address of MCP. There users are principals, like clients.
type Public struct {
	// Origin is the origin of the gateway's public URL, "" if it has none.
	Origin string
	// Console says that the pages of the console are served too, in addition to /me.
	Console bool
	// Authenticate returns the sender of a request. It uses the given credentials of a login, or if they are "",
	// those of the request itself. It logs credentials that it refuses, with the request id that w has. The
	// text of a [Refused] is for the user.
	Authenticate func(w http.ResponseWriter, r *http.Request, credentials string) (*Visitor, error)
	// MayOpen reports whether policy opens the console to a principal.
	MayOpen func(*call.Principal) bool
	// LoggedIn is called for each login, before its answer is written to w.
	LoggedIn func(w http.ResponseWriter, p *call.Principal)
	// Issuers are the issuers at which users can log in with the browser. BeginLogin redirects a browser to one of
	// them; the browser comes back to [Console.Enter]. Its error is for the user.
	Issuers    []string
	BeginLogin func(w http.ResponseWriter, r *http.Request, issuer, next string) error
	Me         Me
	// Shared is the store in which replicas share logins, nil to keep them in memory. It must seal its values.
	Shared store.Values
}

// Refused says why credentials are refused.
type Refused string

func (e Refused) Error() string { return string(e) }

// ErrNoCredentials means that a request has no credentials.
var ErrNoCredentials = errors.New("the request has no credentials")

// Visitor is the sender of a request to the address of MCP.
type Visitor struct {
	*call.Principal
	Profiles []string // the names of those that the principal may use

	session string // the id of the login, "" if the request has credentials of its own
}

type visitorKey struct{}

// visitorOf returns who sent a request, nil at the admin address.
func visitorOf(r *http.Request) *Visitor {
	v, _ := r.Context().Value(visitorKey{}).(*Visitor)
	return v
}

// PrincipalOf returns the principal who has logged in with the browser that sent a request, nil for none.
func (c *Console) PrincipalOf(w http.ResponseWriter, r *http.Request) *call.Principal {
	if v, err := c.visit(w, r); err == nil {
		return v.Principal
	}
	return nil
}

// visit authenticates a request by its own credentials, or by those of its login. Each time they are judged
// anew, so a login ends with its credentials.
func (c *Console) visit(w http.ResponseWriter, r *http.Request) (*Visitor, error) {
	v, err := c.Public.Authenticate(w, r, "")
	if !errors.Is(err, ErrNoCredentials) {
		return v, err
	}
	id := c.sessionID(r)
	login, ok := c.findLogin(r.Context(), id, time.Now())
	if !ok {
		return nil, ErrNoCredentials
	}
	if v, err = c.Public.Authenticate(w, r, login.credentials); err != nil {
		return nil, err
	}
	if v.Identity() != login.owner {
		return nil, Refused("the login is of somebody else")
	}
	v.session = id
	return v, nil
}

// admitVisitor returns a request of a principal. Of others it answers the request and returns nil.
func (c *Console) admitVisitor(w http.ResponseWriter, r *http.Request) *http.Request {
	v, err := c.visit(w, r)
	if err != nil {
		c.askForLogin(w, r)
		return nil
	}
	return r.WithContext(context.WithValue(r.Context(), visitorKey{}, v))
}

// refuseOthers serves principals that may open the console. All others get the answer for a page that does not exist.
func (c *Console) refuseOthers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.Public.MayOpen(visitorOf(r).Principal) {
			c.noSuchPage(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *Console) noSuchPage(w http.ResponseWriter, r *http.Request) {
	c.fail(w, r, http.StatusNotFound, "There is no such page.")
}

// checkLogin returns the session of a person who has given credentials. wrong says what is wrong with them.
func (c *Console) checkLogin(w http.ResponseWriter, r *http.Request) (with session, wrong string) {
	text := credentialsIn(r.PostFormValue("token"))
	if c.Public == nil {
		if !c.isToken(text) {
			c.Refused(w, r, http.StatusUnauthorized, wrongToken)
			return session{}, "This is not the token of this gateway. It is admin.token in the configuration."
		}
		return session{}, ""
	}
	if text != "" { // also if it is not one word: the gateway logs and counts the refusal
		with, wrong = c.checkVisitor(w, r, text)
	}
	if text == "" || strings.ContainsAny(text, " \t\r\n") {
		return session{}, "An API key or an access token is one word."
	}
	return with, wrong
}

// checkVisitor returns the session of a principal with these credentials. wrong says what is wrong with them.
func (c *Console) checkVisitor(w http.ResponseWriter, r *http.Request, credentials string) (with session, wrong string) {
	v, err := c.Public.Authenticate(w, r, credentials)
	if refused, ok := errors.AsType[Refused](err); ok {
		return session{}, "The gateway refuses this: " + string(refused) + "."
	}
	if err != nil {
		return session{}, "The gateway cannot check this now. Try again."
	}
	c.Public.LoggedIn(w, v.Principal)
	return session{owner: v.Identity(), credentials: credentials}, ""
}
