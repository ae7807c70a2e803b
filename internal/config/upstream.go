package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/configfile"
)

// Transport is the transport to an upstream.
type Transport string

// The transports. TransportAuto tries streamable HTTP, then HTTP+SSE.
const (
	TransportAuto       Transport = "auto"
	TransportStdio      Transport = "stdio"
	TransportStreamable Transport = "streamable-http"
	TransportSSE        Transport = "sse"
)

// Era is the era of the protocol toward an upstream. EraAuto detects it.
type Era string

// The eras.
const (
	EraAuto   Era = "auto"
	EraLegacy Era = "legacy"
	EraModern Era = "modern"
)

// Session says which clients share a session with an upstream.
type Session string

// The values of session. SessionShared is one session for all clients, or for all with the same
// capabilities; SessionPerClient one for each legacy session of a client; SessionPerPrincipal one for
// each principal.
const (
	SessionShared       Session = "shared"
	SessionPerClient    Session = "per-client"
	SessionPerPrincipal Session = "per-principal"
)

// AskCalls says what the gateway does with questions of an upstream that do not name their call, while
// calls of several clients run.
type AskCalls string

// AskRefuse refuses such questions; AskSerialize runs one call at a time, so that the call is known.
const (
	AskRefuse    AskCalls = "refuse"
	AskSerialize AskCalls = "serialize"
)

// Start says when an upstream is started or connected.
type Start string

// StartEager starts it with the gateway; StartLazy when a client needs it.
const (
	StartEager Start = "eager"
	StartLazy  Start = "lazy"
)

// Upstream is one MCP server behind the gateway: its connection, and how it is published.
type Upstream struct {
	Name string `yaml:"-"` // unique; matches [a-z][a-z0-9-]{0,31}
	Key  string `yaml:"-"` // the name as it is written in the file
	Pos  Pos    `yaml:"-"` // of the key
	// Unset are the variables that the upstream refers to and that are not set, in the order of the file, and files that
	// cannot be used. Such an upstream must not be connected to, since its other fields lack values.
	Unset []UnsetVariable `yaml:"-"`
	// FileEnv are the variables of Env that only envFile sets, sorted.
	FileEnv []string `yaml:"-"`
	// URLPlace is the position of URL, an Error without a message.
	URLPlace Error `yaml:"-"`
	// CAPlace and ClientCertPlace are the positions of CA and ClientCert, as URLPlace is.
	CAPlace, ClientCertPlace Error `yaml:"-"`

	Connection `yaml:",inline"`

	Breaker Breaker `yaml:"breaker" doc:"circuit breaker: calls fail immediately while the server fails or hangs"`

	HealthInterval time.Duration `yaml:"health_interval" default:"1m" min:"0s" doc:"how long the server may send nothing before the gateway asks whether it is there; 0s turns that off"`

	Prefix   *string `yaml:"prefix" format:"prefix" doc:"prefix of public names: the upstream's name unless set; empty means no prefix"`
	Required bool    `yaml:"required" default:"false" doc:"whether the gateway is ready only with this upstream"`
	Disabled bool    `yaml:"disabled" default:"false" doc:"whether to leave the upstream out"`

	Tags []string `yaml:"tags" format:"tag" doc:"words by which profiles select the upstream"`

	Start    Start         `yaml:"start" default:"eager" enum:"eager|lazy" doc:"whether the server is started, or connected, with the gateway or when a client needs it"`
	IdleStop time.Duration `yaml:"idle_stop" default:"0s" min:"0s" doc:"how long nothing may need the server before it is stopped, or disconnected; 0 never stops it"`

	Tools     NamedFilter `yaml:"tools" doc:"tools that are published"`
	Resources Filter      `yaml:"resources" doc:"resources that are published"`
	Prompts   NamedFilter `yaml:"prompts" doc:"prompts that are published"`

	Conformance   Conformance `yaml:"conformance" default:"warn" enum:"off|warn|repair|strict" doc:"what the gateway does with lists and answers that violate the specification"`
	ValidateInput bool        `yaml:"validate_input" default:"false" doc:"whether to validate arguments against the tool's inputSchema before a call is sent"`
	Sanitize      []string    `yaml:"sanitize" enum:"ansi|control|invisible" doc:"kinds of characters that are removed from text for models"`
	Pin           bool        `yaml:"pin" default:"false" doc:"whether to hide tools whose definition has changed, until gateway pin accepts it"`
	PinDefaults   bool        `yaml:"pin_defaults" default:"true" doc:"whether default values in schemas belong to the definition that pin remembers"`
}

// Connection has the keys of the connection to an upstream. A reload that changes one of these keys opens a
// new connection; a reload that changes another key of the upstream keeps the connection and its sessions.
// Exactly one of Command and URL is set.
type Connection struct {
	Command    string            `yaml:"command" format:"non-empty" blank:"true" doc:"program to start; the gateway talks to it over its standard input and output"`
	Args       []string          `yaml:"args" doc:"arguments of the program"`
	Env        map[string]Secret `yaml:"env" format:"env" doc:"environment variables of the program"`
	InheritEnv []string          `yaml:"inherit_env" format:"env-name" doc:"variables that the program gets from the gateway's environment, in addition to PATH, HOME and the like"`
	Cwd        string            `yaml:"cwd" doc:"working directory of the program"`
	EnvFile    string            `yaml:"envFile" doc:"file of NAME=value lines; env takes precedence"`
	Limits     ProcessLimits     `yaml:"limits" doc:"what the program and the processes that it starts may use"`

	// URL may carry a key in its query or its path: log RedactedURL instead.
	URL string `yaml:"url" alias:"serverUrl|httpUrl" format:"url" blank:"true" doc:"URL of a remote server"`
	// URLs are all URLs if there are several; then URL is the first one.
	URLs    []string    `yaml:"urls" format:"url" doc:"URLs of one remote server, in place of url; each session uses a working URL"`
	Headers Headers     `yaml:"headers" format:"headers" doc:"HTTP headers for the remote server; {{principal.subject}} and the like stand for the calling principal"`
	Auth    Credentials `yaml:"auth,omitempty" doc:"credentials for the remote server"`

	CA         string     `yaml:"ca" format:"non-empty" doc:"file with certificates in PEM: the authorities that sign the certificate of the remote server, in place of those of the system"`
	ClientCert ClientCert `yaml:"client_cert,omitempty" doc:"certificate that the gateway shows to the remote server"`

	Transport Transport `yaml:"transport" enum:"auto|stdio|streamable-http|sse" doc:"transport of a remote server; auto by default, and stdio if command is set"`
	Era       Era       `yaml:"era" default:"auto" enum:"auto|legacy|modern" doc:"era of the protocol; auto detects it"`

	Timeout       time.Duration `yaml:"timeout" default:"60s" min:"1ms" doc:"how long a call may run without progress"`
	MaxDuration   time.Duration `yaml:"max_duration" default:"1h" min:"1ms" doc:"how long a call may run in total"`
	MaxConcurrent int           `yaml:"max_concurrent" default:"64" min:"1" max:"1000000" doc:"calls that run at the same time"`
	MaxQueue      int           `yaml:"max_queue" default:"256" min:"0" max:"1000000" doc:"calls that wait while max_concurrent run; more are refused"`

	Session     Session  `yaml:"session" default:"shared" enum:"shared|per-client|per-principal" doc:"which clients share a session with the server, and with it the server's state"`
	MaxSessions int      `yaml:"max_sessions" default:"100" min:"1" max:"100000" doc:"sessions of clients or principals at the same time; no principal, or address, has more than is left for the others"`
	AskCalls    AskCalls `yaml:"ask_calls" default:"refuse" enum:"refuse|serialize" doc:"whether questions that name no call are refused while calls of several clients run, or one call runs at a time"`
	Roots       []Root   `yaml:"roots" doc:"answer of a shared session to roots/list"`
}

// ClientCert names the files of a client certificate.
type ClientCert struct {
	Cert string `yaml:"cert" format:"non-empty" doc:"file with the certificate in PEM, and the authorities between it and the root"`
	Key  string `yaml:"key" format:"non-empty" doc:"file with its private key in PEM"`
}

// check demands both files.
func (c *ClientCert) check(m *mapping) {
	m.needs("cert", "key")
	c.Cert, c.Key = inFolder(m.d.dir, c.Cert), inFolder(m.d.dir, c.Key)
}

// Breaker configures the circuit breakers of the sessions with an upstream.
type Breaker struct {
	Failures int           `yaml:"failures" default:"5" min:"0" max:"1000000" doc:"failed calls in a row, not of one principal alone, after which calls fail immediately; 0 turns the breaker off"`
	Open     time.Duration `yaml:"open" default:"10s" min:"1ms" max:"1h" doc:"how long calls fail immediately before one is tried"`
}

// ProcessLimits bound what a program may use; 0 means no limit.
type ProcessLimits struct {
	Memory Size `yaml:"memory" default:"0" doc:"resident memory of the program and all processes that it starts, together; they are ended when they use more; 0 means no limit; only on Linux"`
	Files  int  `yaml:"files" default:"0" min:"0" max:"1048576" doc:"open files of each of these processes; 0 means no limit; not on Windows"`
}

// The least limits that are not mistakes: no runtime starts with less.
const (
	minMemory = 16 << 20
	minFiles  = 32
)

// Conformance says what the gateway does with violations of the specification.
type Conformance string

// The values of conformance.
const (
	ConformanceOff    Conformance = "off"
	ConformanceWarn   Conformance = "warn"
	ConformanceRepair Conformance = "repair"
	ConformanceStrict Conformance = "strict"
)

// The values of Upstream.Sanitize.
const (
	SanitizeANSI      = "ansi"
	SanitizeControl   = "control"
	SanitizeInvisible = "invisible"
)

// NamedFilter selects items that have names, and changes how they are published.
type NamedFilter struct {
	Filter   `yaml:",inline"`
	Override []Override `yaml:"override" keyed:"true" doc:"items that are published differently, by native name"`
}

// Override says how the published item differs from the item of the upstream.
type Override struct {
	Native string `yaml:"-"` // the name at the upstream, as the key in the file

	Name        string `yaml:"name" format:"item-name" doc:"replaces the native name in the public name"`
	Title       string `yaml:"title" doc:"title to show"`
	Description string `yaml:"description" doc:"description for models and people"`
	Hidden      bool   `yaml:"hidden" default:"false" doc:"whether to leave the item out"`

	Annotations Annotations `yaml:"annotations,omitempty" only:"tools" doc:"hints in the place of those of the tool; policy and hosts rely on them"`
	Tags        []string    `yaml:"tags" format:"tag" doc:"words by which profiles select the item, beside the tags of its upstream"`
}

// check checks combinations of keys of an override.
func (o *Override) check(m *mapping) {
	o.Native = m.key
	switch {
	case o.Native == "":
		m.errorf("", "must be the native name of an item")
	case o.Hidden && (o.Name != "" || o.Title != "" || o.Description != "" || m.has("annotations") || m.has("tags")):
		m.errorf("hidden", "contradicts the other keys; a hidden item needs none")
	case len(m.given) == 0 && len(m.intended) == 0:
		m.errorf("", "has no effect; set name, title, description, annotations, tags or hidden")
	}
}

// check demands that the names of overrides differ, and that only tools have annotations.
func (f *NamedFilter) check(m *mapping) {
	given := make(map[string]string, len(f.Override))
	for _, o := range f.Override {
		if o.Annotations.Given() != nil && strings.HasSuffix(m.path.Pattern, ".prompts") {
			m.errorf("override", "gives the prompt %s annotations, and only tools have them; remove them", configfile.Quote(o.Native))
		}
		if o.Name == "" {
			continue
		}
		if first, twice := given[o.Name]; twice {
			m.errorf("override", "gives %s and %s the same name, %s; give each its own", configfile.Quote(first), configfile.Quote(o.Native), o.Name)
		}
		given[o.Name] = o.Native
	}
}

// Filter selects items by globs of native names (of URIs for resources), in which * stands for any run of
// characters. An item is published if Allow matches and Deny does not; an empty Allow publishes
// nothing.
type Filter struct {
	Allow []string `yaml:"allow" default:"*" format:"glob" listed:"true" doc:"globs of native names to publish; a plain list in place of the mapping is the same as allow"`
	Deny  []string `yaml:"deny" format:"glob" doc:"globs of native names not to publish; takes precedence over allow"`
}

// Root is a folder that an upstream may work in.
type Root struct {
	URI  string `yaml:"uri" format:"file-uri" short:"true" doc:"file URI; a plain string in place of the mapping is the same as uri"`
	Name string `yaml:"name" doc:"name to show"`
}

// DefaultUpstream returns an upstream with the defaults and the name for a key. It has neither Command nor
// URL.
func DefaultUpstream(key string) Upstream {
	u := Upstream{Name: NameOf(key), Key: key}
	setDefaults(reflect.ValueOf(&u).Elem())
	return u
}

// EffectivePrefix is the prefix of public names: Prefix if it is set, even if it is empty, else Name.
func (u Upstream) EffectivePrefix() string {
	if u.Prefix != nil {
		return *u.Prefix
	}
	return u.Name
}

// AllURLs returns URLs, or URL if that is the only one.
func (c Connection) AllURLs() []string {
	if len(c.URLs) > 0 {
		return c.URLs
	}
	return []string{c.URL}
}

// RedactedURL is URL without the parts that may be a key, see [RedactURL].
func (c Connection) RedactedURL() string { return RedactURL(c.URL) }

// RedactURL returns a URL without the values of its query, and without the random parts of its path.
func RedactURL(s string) string {
	parsed, err := url.Parse(s)
	if err != nil {
		return redacted
	}
	if parsed.RawQuery != "" {
		parsed.RawQuery = redacted
	}
	shown := parsed.String()
	for escaped := range strings.SplitSeq(parsed.EscapedPath(), "/") {
		if part, err := url.PathUnescape(escaped); err != nil || isSecretPart(part) {
			shown = strings.ReplaceAll(shown, "/"+escaped, "/"+redacted)
		}
	}
	return shown
}

// hostType is a transport as hosts name it.
type hostType string

// transports maps the names of hosts. For http an editor falls back to HTTP+SSE, and so does
// TransportAuto.
var transports = map[hostType]Transport{
	"stdio":           TransportStdio,
	"local":           TransportStdio,
	"http":            TransportAuto,
	"remote":          TransportAuto,
	"streamable-http": TransportStreamable,
	"streamableHttp":  TransportStreamable,
	"sse":             TransportSSE,
}

// entry is an upstream in the file. It has additional keys of hosts, which its check merges into the
// Upstream.
type entry struct {
	Upstream `yaml:",inline"`
	Type     hostType `yaml:"type" enum:"stdio|local|http|remote|streamable-http|streamableHttp|sse" doc:"transport as hosts name it"`
	Enabled  *bool    `yaml:"enabled" doc:"the opposite of disabled, as hosts write it"`

	at *mapping // for the checks that need all upstreams
}

// Valid checks the URL and the headers of an upstream that was not read from a file. The error shows
// neither.
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
