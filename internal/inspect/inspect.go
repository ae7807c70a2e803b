package inspect

import (
	"context"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// Gateway is the interface through which an [Inspector] reads a gateway. The methods may be
// called concurrently.
type Gateway interface {
	// Upstreams returns how the upstreams are now, in the order of the configuration.
	Upstreams() []Upstream
	// ListedTools returns the tools that an upstream lists, as the upstream sent them.
	ListedTools(upstream string) []wire.Raw
	// Policy returns the policy that is in force, without the narrowing by profiles.
	Policy() *policy.Policy
	// Profile returns the profile with this id, "" for the default one. It is nil if the
	// profile selects everything, or does not exist.
	Profile(id string) *profile.Profile
	// Profiles returns how the profiles are now, the default one first, then in the order of
	// the configuration.
	Profiles() []Profile
	// TableUnder returns the table of the upstreams' current items, as it would be under
	// a policy in a profile, nil for everything.
	TableUnder(*policy.Policy, *profile.Profile) *catalog.Table
	// Current returns the table that is in force in a profile, "" for the default one, nil if
	// there is no such profile. It costs nothing.
	Current(id string) *catalog.Table
	// Handle makes a call as if a client had sent it. The error is a *wire.Error or that
	// of ctx.
	Handle(ctx context.Context, c *call.Call) (call.Result, error)
}

// Upstream is how an upstream is at one moment.
type Upstream struct {
	Name     string
	State    connector.State
	Revision wire.Revision // "" before the first handshake
	// Transport is that of the connection, or the configured one before the first.
	Transport string
	Server    wire.Raw        // serverInfo, nil if the server sent none
	Items     [call.Kinds]int // how many items of each kind the upstream lists, without tools that pins hide
	HeldTools int             // how many of those a person has not refused
	Hidden    [call.Kinds]int // how many of Items its own lists and overrides hide from all clients
	Reason    string          // why it is degraded, down or slow to start, and what to do about it
	Took      time.Duration   // the duration of the first attempt to connect, 0 while it goes on
	Required  bool
	URLs      []URL           // if the upstream has several
	Unset     []UnsetVariable // why it is down
	Since     time.Time       // when it came into the state
	// LastError is the last reason for which it was not ready, nil if there was none.
	LastError *Trouble
	// LastFailed is the last call that failed, nil if none has.
	LastFailed *FailedCall
	// OpenBreakers and HalfOpenBreakers are the circuit breakers of its sessions that are not closed.
	OpenBreakers, HalfOpenBreakers connector.Breakers
	// Skipped is the output that is no MCP. It is empty while the upstream is down: then the reason says it.
	Skipped connector.SkippedOutput
}

// Profile is how a profile is at one moment.
type Profile struct {
	Name  string
	Items [call.Kinds]int // how many items of each kind it has that the lists of their upstreams do not hide
}

// UnsetVariable is a variable that the configuration of an upstream refers to and that is not set, or a file that it refers to
// and that cannot be used.
type UnsetVariable struct {
	Name         string // "" for a file
	File         string // the place that refers to it, or a malformed line of an envFile
	Line, Column int
	Path         string
	Message      string // how to set it, or what is wrong with the file
}

// Trouble is an error at a time.
type Trouble struct {
	Reason string
	At     time.Time
}

// URL is how one of several URLs of an upstream is.
type URL struct {
	Name     string // without secrets
	Sessions int    // that use it
	Reason   string // why it is avoided, "" if it is not
}

// Inspector inspects one gateway. The methods may be called concurrently.
type Inspector struct {
	gateway Gateway
	awaited sync.Map // answerKey → *violations: the answers that probes wait for
}

// New returns an inspector of a gateway.
func New(g Gateway) *Inspector { return &Inspector{gateway: g} }

// Upstreams returns how the upstreams are now, in the order of the configuration.
func (i *Inspector) Upstreams() []Upstream { return i.gateway.Upstreams() }

// Table returns the table of the upstreams' current items in a profile, "" for the default one.
func (i *Inspector) Table(id string) *catalog.Table {
	return i.gateway.TableUnder(i.gateway.Policy(), i.gateway.Profile(id))
}

// Everything returns the table of the upstreams' current items, regardless of profiles.
func (i *Inspector) Everything() *catalog.Table { return i.gateway.TableUnder(i.gateway.Policy(), nil) }
