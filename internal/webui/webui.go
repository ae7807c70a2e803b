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
	// Log gets a line for each action.
	Log *zap.Logger
	// Assume completes a principal that a person describes, as authentication in the named profile
	// would: with the groups and scopes of the configuration. remarks are sentences about what does
	// not fit. It may be nil.
	Assume func(p *call.Principal, profile string) (out *call.Principal, remarks []string, err error)
	// Examine judges an access token or an API key as a request with it would be at the endpoint of
	// the named profile, "" for the main one. nil means that clients have no credentials.
	Examine func(ctx context.Context, credentials, profile string) *Examined
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

// Console is the handler of all paths below [Prefix]. The caller has checked Host and Origin.
type Console struct {
	Options
	handler  http.Handler
	sessions sessions
	streams  chan struct{} // a place for each open event stream
	recent   recentStatus
}

// maxStreams bounds the event streams of all browsers together.
const maxStreams = 32

// New returns a console.
func New(o Options) *Console {
	c := &Console{Options: o, sessions: newSessions(), streams: make(chan struct{}, maxStreams)}
	r := chi.NewRouter()
	r.Use(protect)
	r.Get("/static/{version}/{name}", serveAsset)
	r.Get("/login", c.serveLoginForm)
	r.Post("/login", c.serveLogin)
	r.Group(func(r chi.Router) {
		r.Use(c.authenticate)
		for _, p := range pages {
			serve := func(w http.ResponseWriter, r *http.Request) { c.servePage(w, r, p) }
			r.Get(p.path, serve)
			if p.posts {
				r.Post(p.path, serve)
			}
		}
		r.Get("/events", c.serveEvents)
		for _, a := range actions {
			r.Post(a.path, func(w http.ResponseWriter, r *http.Request) { c.serveAction(w, r, a) })
		}
		r.Post("/theme", c.serveTheme)
		r.Post("/logout", c.serveLogout)
	})
	notFound := c.authenticate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, http.StatusNotFound, "There is no such page.")
	}))
	r.NotFound(notFound.ServeHTTP)
	root := chi.NewRouter()
	root.Mount(Prefix, r)
	c.handler = root
	return c
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The router of the caller has left its own position in the context.
	c.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, nil)))
}

// Run keeps the history of the traffic, and forgets calls at which nobody looks, until ctx ends.
func (c *Console) Run(ctx context.Context) {
	ticker := time.NewTicker(inspect.HistoryStep)
	defer ticker.Stop()
	for {
		c.History.Sample(time.Now())
		c.Calls.Expire(time.Now())
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
