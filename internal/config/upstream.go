package config

import (
	"net/url"
	"reflect"
	"time"
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

// Upstream is one MCP server behind the gateway. Exactly one of Command and
// URL is set.
type Upstream struct {
	Name string `yaml:"-"` // unique; matches [a-z][a-z0-9-]{0,31}
	Key  string `yaml:"-"` // the name as it is written in the file
	Pos  Pos    `yaml:"-"` // of the key
	// URLPlace is where URL is written, an Error without a message.
	URLPlace Error `yaml:"-"`

	Command    string            `yaml:"command" format:"non-empty" doc:"program to start; it is spoken to over its standard input and output"`
	Args       []string          `yaml:"args" doc:"arguments of the program"`
	Env        map[string]Secret `yaml:"env" format:"env" doc:"environment variables of the program"`
	InheritEnv []string          `yaml:"inherit_env" format:"env-name" doc:"variables that the program gets from the gateway's environment, beside PATH, HOME and the like"`
	Cwd        string            `yaml:"cwd" doc:"folder that the program is started in"`
	EnvFile    string            `yaml:"envFile" doc:"file of NAME=value lines; env goes before it"`

	// URL may carry a key in its query: log RedactedURL instead.
	URL     string            `yaml:"url" alias:"serverUrl|httpUrl" format:"url" doc:"URL of a remote server"`
	Headers map[string]Secret `yaml:"headers" format:"headers" doc:"HTTP headers for the remote server"`

	Transport Transport `yaml:"transport" enum:"auto|stdio|streamable-http|sse" doc:"how a remote server is spoken to; auto, and stdio where command is set"`
	Era       Era       `yaml:"era" default:"auto" enum:"auto|legacy|modern" doc:"era of the protocol; auto finds it out"`
	Prefix    *string   `yaml:"prefix" format:"prefix" doc:"what public names begin with: the upstream's name unless set; empty turns it off"`
	Required  bool      `yaml:"required" default:"false" doc:"whether the gateway is not ready without it"`
	Disabled  bool      `yaml:"disabled" default:"false" doc:"whether to leave it out"`

	Timeout       time.Duration `yaml:"timeout" default:"60s" min:"1ms" doc:"how long a call may go on without progress"`
	MaxDuration   time.Duration `yaml:"max_duration" default:"1h" min:"1ms" doc:"how long a call may go on at all"`
	MaxConcurrent int           `yaml:"max_concurrent" default:"64" min:"1" max:"1000000" doc:"calls that run at one time"`
	MaxQueue      int           `yaml:"max_queue" default:"256" min:"0" max:"1000000" doc:"calls that wait for a free place; more are refused"`

	Roots     []Root `yaml:"roots" doc:"what a shared session answers to roots/list"`
	Tools     Filter `yaml:"tools" doc:"tools that are published"`
	Resources Filter `yaml:"resources" doc:"resources that are published"`
	Prompts   Filter `yaml:"prompts" doc:"prompts that are published"`
}

// Filter selects items by globs of native names (resources: URIs), in which *
// stands for any run of characters. An item is published if Allow has it and
// Deny has not; an empty Allow publishes nothing.
type Filter struct {
	Allow []string `yaml:"allow" default:"*" format:"glob" doc:"globs of native names that are published"`
	Deny  []string `yaml:"deny" format:"glob" doc:"globs of native names that are not, whatever allow says"`
}

// Root is a folder that an upstream may work in.
type Root struct {
	URI  string `yaml:"uri" format:"file-uri" short:"true" doc:"file URI; a plain string in place of the mapping is its uri"`
	Name string `yaml:"name" doc:"name to show"`
}

// DefaultUpstream has the defaults of an upstream that is configured by its
// name alone. It has neither Command nor URL.
func DefaultUpstream(name string) Upstream {
	u := Upstream{Name: name, Key: name}
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
func (u Upstream) RedactedURL() string {
	parsed, err := url.Parse(u.URL)
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
