package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"time"

	"mcpgateway/internal/configfile"
)

// Transport is how an upstream is spoken to.
type Transport string

// The transports. TransportAuto tries streamable HTTP, then HTTP+SSE.
const (
	TransportAuto       Transport = "auto"
	TransportStdio      Transport = "stdio"
	TransportStreamable Transport = "streamable-http"
	TransportSSE        Transport = "sse"
)

// Era is the era that an upstream is spoken to in. EraAuto finds it out.
type Era string

// The eras.
const (
	EraAuto   Era = "auto"
	EraLegacy Era = "legacy"
	EraModern Era = "modern"
)

// Session is who shares a session with an upstream.
type Session string

// The ways to share sessions. SessionShared is one session for all clients, or
// for all that can do the same; SessionPerClient one for each legacy session of a
// client, SessionPerPrincipal one for each principal.
const (
	SessionShared       Session = "shared"
	SessionPerClient    Session = "per-client"
	SessionPerPrincipal Session = "per-principal"
)

// AskCalls is what becomes of questions of an upstream that do not say which
// call they belong to while calls of several clients run.
type AskCalls string

// AskRefuse refuses such questions; AskSerialize lets one call run at a time, so
// that there are none.
const (
	AskRefuse    AskCalls = "refuse"
	AskSerialize AskCalls = "serialize"
)

// Upstream is one MCP server behind the gateway: its connection, and how it is published.
type Upstream struct {
	Name string `yaml:"-"` // unique; matches [a-z][a-z0-9-]{0,31}
	Key  string `yaml:"-"` // the name as it is written in the file
	Pos  Pos    `yaml:"-"` // of the key
	// URLPlace is the position of URL, an Error without a message.
	URLPlace Error `yaml:"-"`

	Connection `yaml:",inline"`

	Prefix   *string `yaml:"prefix" format:"prefix" doc:"what public names begin with: the upstream's name unless set; empty turns it off"`
	Required bool    `yaml:"required" default:"false" doc:"whether the gateway is not ready without it"`
	Disabled bool    `yaml:"disabled" default:"false" doc:"whether to leave it out"`

	Tools     NamedFilter `yaml:"tools" doc:"tools that are published"`
	Resources Filter      `yaml:"resources" doc:"resources that are published"`
	Prompts   NamedFilter `yaml:"prompts" doc:"prompts that are published"`

	Conformance   Conformance `yaml:"conformance" default:"warn" enum:"off|warn|repair|strict" doc:"what becomes of lists and answers that do not keep to the specification"`
	ValidateInput bool        `yaml:"validate_input" default:"false" doc:"whether arguments are held against the tool's inputSchema before a call is sent"`
	Sanitize      []string    `yaml:"sanitize" enum:"ansi|control|invisible" doc:"what is taken out of text that goes to models"`
	Pin           bool        `yaml:"pin" default:"false" doc:"whether tools whose definition is not the accepted one are hidden until gateway pin accepts it"`
}

// Connection is what makes the connection to an upstream. A reload that changes one of these keys opens a
// new connection; a reload that changes another key of the upstream keeps the connection and its
// sessions. Exactly one of Command and URL is set.
type Connection struct {
	Command    string            `yaml:"command" format:"non-empty" blank:"true" doc:"program to start; it is spoken to over its standard input and output"`
	Args       []string          `yaml:"args" doc:"arguments of the program"`
	Env        map[string]Secret `yaml:"env" format:"env" doc:"environment variables of the program"`
	InheritEnv []string          `yaml:"inherit_env" format:"env-name" doc:"variables that the program gets from the gateway's environment, beside PATH, HOME and the like"`
	Cwd        string            `yaml:"cwd" doc:"folder that the program is started in"`
	EnvFile    string            `yaml:"envFile" doc:"file of NAME=value lines; env goes before it"`

	// URL may carry a key in its query: log RedactedURL instead.
	URL     string      `yaml:"url" alias:"serverUrl|httpUrl" format:"url" blank:"true" doc:"URL of a remote server"`
	Headers Headers     `yaml:"headers" format:"headers" doc:"HTTP headers for the remote server; {{principal.subject}} and the like stand for who calls"`
	Auth    Credentials `yaml:"auth,omitempty" doc:"what proves to the remote server who calls"`

	Transport Transport `yaml:"transport" enum:"auto|stdio|streamable-http|sse" doc:"how a remote server is spoken to; auto, and stdio where command is set"`
	Era       Era       `yaml:"era" default:"auto" enum:"auto|legacy|modern" doc:"era of the protocol; auto finds it out"`

	Timeout       time.Duration `yaml:"timeout" default:"60s" min:"1ms" doc:"how long a call may go on without progress"`
	MaxDuration   time.Duration `yaml:"max_duration" default:"1h" min:"1ms" doc:"how long a call may go on at all"`
	MaxConcurrent int           `yaml:"max_concurrent" default:"64" min:"1" max:"1000000" doc:"calls that run at one time"`
	MaxQueue      int           `yaml:"max_queue" default:"256" min:"0" max:"1000000" doc:"calls that wait for a free place; more are refused"`

	Session     Session  `yaml:"session" default:"shared" enum:"shared|per-client|per-principal" doc:"who shares a session with the server, and with it the server's state"`
	MaxSessions int      `yaml:"max_sessions" default:"100" min:"1" max:"100000" doc:"sessions of clients or principals at one time; no principal, or address, has more than is left for the others"`
	AskCalls    AskCalls `yaml:"ask_calls" default:"refuse" enum:"refuse|serialize" doc:"whether questions that name no call are refused while calls of several clients run, or one call runs at a time"`
	Roots       []Root   `yaml:"roots" doc:"what a shared session answers to roots/list"`
}

// Conformance says what becomes of faults against the specification.
type Conformance string

// The kinds of conformance.
const (
	ConformanceOff    Conformance = "off"
	ConformanceWarn   Conformance = "warn"
	ConformanceRepair Conformance = "repair"
	ConformanceStrict Conformance = "strict"
)

// What Upstream.Sanitize can name.
const (
	SanitizeANSI      = "ansi"
	SanitizeControl   = "control"
	SanitizeInvisible = "invisible"
)

// NamedFilter selects items that have names, and changes how they are published.
type NamedFilter struct {
	Filter   `yaml:",inline"`
	Override []Override `yaml:"override" keyed:"true" doc:"items that are published otherwise, by native name"`
}

// Override says how an item is published otherwise than its upstream has it.
type Override struct {
	Native string `yaml:"-"` // the name at the upstream, as the key in the file

	Name        string `yaml:"name" format:"item-name" doc:"stands for the native name in the public one"`
	Title       string `yaml:"title" doc:"title to show"`
	Description string `yaml:"description" doc:"description for models and people"`
	Hidden      bool   `yaml:"hidden" default:"false" doc:"whether to leave the item out"`
}

// check keeps what an override says free of contradictions.
func (o *Override) check(m *mapping) {
	o.Native = m.key
	switch {
	case o.Native == "":
		m.errorf("", "must be the native name of an item")
	case o.Hidden && (o.Name != "" || o.Title != "" || o.Description != ""):
		m.errorf("hidden", "contradicts the other keys; an item that is left out needs none")
	case len(m.given) == 0 && len(m.meant) == 0:
		m.errorf("", "says nothing; give it name, title, description or hidden")
	}
}

// check keeps the names that overrides give apart.
func (f *NamedFilter) check(m *mapping) {
	given := make(map[string]string, len(f.Override))
	for _, o := range f.Override {
		if o.Name == "" {
			continue
		}
		if first, twice := given[o.Name]; twice {
			m.errorf("override", "gives %s and %s one name, %s; give each its own", configfile.Quote(first), configfile.Quote(o.Native), o.Name)
		}
		given[o.Name] = o.Native
	}
}

// Filter selects items by globs of native names (resources: URIs), in which *
// stands for any run of characters. An item is published if Allow has it and
// Deny has not; an empty Allow publishes nothing.
type Filter struct {
	Allow []string `yaml:"allow" default:"*" format:"glob" listed:"true" doc:"globs of native names that are published; a plain list in place of the mapping is this"`
	Deny  []string `yaml:"deny" format:"glob" doc:"globs of native names that are not, whatever allow says"`
}

// Root is a folder that an upstream may work in.
type Root struct {
	URI  string `yaml:"uri" format:"file-uri" short:"true" doc:"file URI; a plain string in place of the mapping is its uri"`
	Name string `yaml:"name" doc:"name to show"`
}

// DefaultUpstream has the defaults of an upstream that is configured by its
// key alone, which its name is made of. It has neither Command nor URL.
func DefaultUpstream(key string) Upstream {
	u := Upstream{Name: NameOf(key), Key: key}
	setDefaults(reflect.ValueOf(&u).Elem())
	return u
}

// EffectivePrefix is what the upstream's public names begin with: Prefix if it
// is set, empty included, else Name.
func (u Upstream) EffectivePrefix() string {
	if u.Prefix != nil {
		return *u.Prefix
	}
	return u.Name
}

// RedactedURL is URL without the values of its query, which may hold a key.
func (c Connection) RedactedURL() string {
	parsed, err := url.Parse(c.URL)
	if err != nil {
		return redacted
	}
	if parsed.RawQuery != "" {
		parsed.RawQuery = redacted
	}
	return parsed.String()
}

// hostType is the transport in the words of hosts.
type hostType string

// transports says what the words of hosts mean. An editor that is told http
// falls back to HTTP+SSE, and so does TransportAuto.
var transports = map[hostType]Transport{
	"stdio":           TransportStdio,
	"local":           TransportStdio,
	"http":            TransportAuto,
	"remote":          TransportAuto,
	"streamable-http": TransportStreamable,
	"streamableHttp":  TransportStreamable,
	"sse":             TransportSSE,
}

// entry is an upstream as it is written: with the keys of hosts that say in
// other words what keys of ours say. Its check folds them into the Upstream.
type entry struct {
	Upstream `yaml:",inline"`
	Type     hostType `yaml:"type" enum:"stdio|local|http|remote|streamable-http|streamableHttp|sse" doc:"transport in the words of hosts"`
	Enabled  *bool    `yaml:"enabled" doc:"the opposite of disabled, in the words of hosts"`

	at *mapping // for the checks that need all upstreams
}

// Valid reports what is wrong with the URL and the headers of an upstream that was
// not read from a file, nil if nothing is. The error shows neither.
func (u Upstream) Valid() error {
	if _, err := remoteURL(u.URL); err != nil {
		return fmt.Errorf("the url %w", err)
	}
	valid := headerEntries()
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		if err := valid(name, u.Headers[name].Reveal()); err != nil {
			return fmt.Errorf("the header %s %w", configfile.Quote(name), err)
		}
	}
	return nil
}
