package webui

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/inspect"
)

// Prefix is the path of the console.
const Prefix = "/ui"

// Options configure a console.
type Options struct {
	Inspector *inspect.Inspector
	// Status returns how the gateway is now.
	Status func() (*inspect.Status, error)
	// History has the traffic of the last minutes. Run keeps it up to date.
	History *inspect.History
	// Calls has the last calls while somebody looks.
	Calls *inspect.CallLog
	// Sessions returns what clients have open.
	Sessions func() *inspect.Sessions
	// Config returns the configuration in force. It has no secrets.
	Config func() *Configuration
	// Token is the admin token. Without one, the console is for requests that a program on this
	// machine sent directly.
	Token string
	// Actions has the console serve its actions. Without it the pages only show.
	Actions bool
	// Call makes a call as if a client had sent it. The error is a *wire.Error or that of ctx. It is
	// needed for Actions.
	Call func(ctx context.Context, c *call.Call) (call.Result, error)
	// Log gets a line for each action.
	Log *zap.Logger
	// Pins has the definitions of tools that wait for a decision.
	Pins Pins
	// Grants has the grants of users.
	Grants Grants
	// Assume completes a principal that a person describes, as authentication in the named profile
	// would: with the groups and scopes of the configuration. remarks are sentences about what does
	// not fit. refused says why the principal does not get the profile, "" if it does. It may be nil.
	Assume func(p *call.Principal, profile string) (out *call.Principal, remarks []string, refused string, err error)
	// Examine judges an access token or an API key as a request with it would be at the endpoint of
	// the named profile, "" for the main one. nil means that clients have no credentials.
	Examine func(ctx context.Context, credentials, profile string) *Examined
	// Refused is called for each login for which there were too many attempts, and at the admin address for each wrong
	// token, before the answer. The reason contains no part of the request. It may be nil.
	Refused func(w http.ResponseWriter, r *http.Request, status int, reason string)
	// Public is set for a console at the address of MCP, nil at the admin address.
	Public *Public
}

// Configuration is the configuration in force.
type Configuration struct {
	Settings []Setting
	Warnings []string // each with its position
}

// Setting is one key of the configuration.
type Setting struct {
	Path, Value string
	Default     bool // the value is that of a configuration without the key
}

// Console is the handler of all paths below [Prefix], and with Public of those below [MePrefix]. The caller has
// checked Host and Origin.
type Console struct {
	Options
	base     string // the path of the login, of the files, and of the forms of every page
	handler  http.Handler
	sessions sessions
	attempts attempts // to log in
	tries    *tries
	streams  chan struct{} // a place for each open event stream
	drained  chan struct{} // closed when event streams have to end
	drain    sync.Once
	recent   recentStatus
}

// maxStreams bounds the event streams of all browsers together.
const maxStreams = 32

// New returns a console.
func New(o Options) *Console {
	c := &Console{Options: o, base: Prefix, sessions: newSessions(), tries: newTries(), streams: make(chan struct{}, maxStreams), drained: make(chan struct{})}
	if o.Refused == nil {
		c.Refused = func(http.ResponseWriter, *http.Request, int, string) {}
	}
	root, own := chi.NewRouter(), ""
	if o.Public != nil {
		c.base, own = MePrefix, o.Public.Origin
	}
	root.Use(protect(own))
	root.Get(c.base+"/static/{version}/{name}", serveAsset)
	root.Get(c.base+"/login", c.serveLoginForm)
	root.Post(c.base+"/login", c.serveLogin)
	if o.Public != nil {
		root.Get(c.base+"/login/issuer", c.serveIssuer)
	}
	root.Group(func(r chi.Router) {
		r.Use(c.authenticate)
		r.Post(c.base+"/theme", c.serveTheme)
		r.Post(c.base+"/logout", c.serveLogout)
		if o.Public != nil {
			r.Get(MePrefix, c.page(mePage))
			r.Post(MePrefix+"/revoke", c.serveRevoke)
			r.Get(MePrefix+"/grant", c.serveGrant)
		}
		if o.Public == nil || o.Public.Console {
			r.Group(c.addPages)
		}
	})
	root.NotFound(c.authenticate(http.HandlerFunc(c.noSuchPage)).ServeHTTP)
	c.handler = root
	return c
}

// addPages adds the pages of the console itself.
func (c *Console) addPages(r chi.Router) {
	if c.Public != nil {
		r.Use(c.refuseOthers)
	}
	for _, p := range pages {
		r.Get(p.href(), c.page(p))
		if p.posts {
			r.Post(p.href(), c.page(p))
		}
	}
	r.Get(Prefix+"/", c.page(overviewPage))
	r.Get(Prefix+"/events", c.serveEvents)
	r.Get(Prefix+"/try/part", c.servePart)
	r.Get(Prefix+"/try/result", c.serveResult)
	r.Get(Prefix+"/try/app", c.serveApp)
	for _, a := range actions {
		r.Post(Prefix+a.path, func(w http.ResponseWriter, r *http.Request) { c.serveAction(w, r, a) })
	}
}

func (c *Console) page(p *page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { c.servePage(w, r, p) }
}

// opensFor reports whether the pages of the console are for a principal.
func (c *Console) opensFor(p *call.Principal) bool { return c.Public.Console && c.Public.MayOpen(p) }

// Drain ends the event streams, and the calls that people try.
func (c *Console) Drain() {
	c.drain.Do(func() { close(c.drained) })
	c.tries.end()
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The router of the caller has left its own position in the context.
	c.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, nil)))
}

// Run keeps the history of the traffic, and forgets calls at which nobody looks, until ctx ends. Then it ends the calls that
// people try.
func (c *Console) Run(ctx context.Context) {
	defer c.tries.close()
	ticker := time.NewTicker(inspect.HistoryStep)
	defer ticker.Stop()
	for {
		c.History.Sample(time.Now())
		c.Calls.Expire(time.Now())
		c.tries.forget(time.Now(), c.isOpen)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// recentStatus keeps a status for a moment: several people may look at several pages.
type recentStatus struct {
	mu sync.Mutex
	at time.Time
	s  *inspect.Status
}

// statusAge is how old a status on a page may be.
const statusAge = time.Second

// status returns how the gateway is. Callers must not change it.
func (c *Console) status() (*inspect.Status, error) {
	c.recent.mu.Lock()
	defer c.recent.mu.Unlock()
	if c.recent.s != nil && time.Since(c.recent.at) < statusAge {
		return c.recent.s, nil
	}
	s, err := c.Status()
	if err != nil {
		return nil, err
	}
	c.recent.s, c.recent.at = s, time.Now()
	return s, nil
}

// pageFor returns the page with this path and query, nil if there is none.
func pageFor(at string) (*page, *url.URL) {
	u, err := url.Parse(at)
	if err != nil || u.Host != "" || u.Scheme != "" {
		return nil, nil
	}
	for _, p := range pages {
		if u.Path == p.href() {
			return p, u
		}
	}
	return nil, nil
}
