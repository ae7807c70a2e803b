package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"
)

// Config is a whole configuration with its defaults filled in.
//
// The tags are the schema: yaml is the key, default its default as a user would
// write it, doc its line in the reference; enum lists the values, min and max bound it, single lets a
// scalar stand for a list of one, format names an entry of the formats table, alias lists other
// spellings of the key, blank makes the empty string the same as no value, like names a key with the same keys, and only the part of a
// path below which the key has a meaning. With reload a running gateway applies a change of
// the key and of the keys below it; other keys need a restart.
type Config struct {
	Listen         string        `yaml:"listen" default:"127.0.0.1:8080" format:"address" doc:"address that MCP is served on, as host:port"`
	PublicURL      string        `yaml:"public_url" format:"base-url" doc:"URL at which clients reach the gateway behind a proxy"`
	TLS            TLS           `yaml:"tls" doc:"TLS of the address that MCP is served on"`
	AllowedOrigins []string      `yaml:"allowed_origins" reload:"true" format:"origin" doc:"browser origins that may call, in addition to the gateway's own"`
	AllowedHosts   []string      `yaml:"allowed_hosts" reload:"true" format:"host" doc:"accepted Host values, in addition to loopback and the host of public_url"`
	Compression    Compression   `yaml:"compression" reload:"true" default:"auto" enum:"auto|always|lists|off" doc:"which answers are compressed for clients that accept gzip: auto means lists, and large results unless listen is on loopback"`
	TrustedProxies []string      `yaml:"trusted_proxies" format:"network" doc:"networks of proxies whose X-Forwarded-For, -Host and -Proto are trusted"`
	EnvFile        string        `yaml:"env_file" reload:"true" doc:"file of NAME=value lines with variables for ${…}; the environment takes precedence"`
	StateDir       string        `yaml:"state_dir" doc:"folder for data that survives a restart; empty means the user's state folder"`
	StartupWait    time.Duration `yaml:"startup_wait" default:"10s" min:"0s" doc:"how long first lists and calls wait for upstreams on their first attempt"`
	DrainTimeout   time.Duration `yaml:"drain_timeout" reload:"true" default:"20s" min:"0s" doc:"how long running calls may continue after the signal to stop, and at an upstream that a reload has replaced or removed"`
	Admin          Admin         `yaml:"admin" doc:"health, metrics and administration"`
	Namespace      Namespace     `yaml:"namespace" reload:"true" doc:"how public names are built"`
	Upstreams      []Upstream    `yaml:"-"` // in file order; document declares the key
	Auth           Auth          `yaml:"auth" doc:"how clients authenticate"`
	Profiles       []Profile     `yaml:"profiles" keyed:"true" reload:"true" doc:"named views of the upstreams' items, each served at /mcp/<name>; default is the one at /mcp"`
	Scripts        Scripts       `yaml:"scripts" reload:"true" doc:"bounds on each run of a script, for profiles with scripts or tools_from"`
	Policy         Policy        `yaml:"policy" reload:"true" doc:"the rights of clients"`
	Resources      Resources     `yaml:"resources" doc:"how resources are shown to clients"`
	Bridge         Bridge        `yaml:"bridge" doc:"translation between clients and upstreams of different eras"`
	Store          Store         `yaml:"store" doc:"the store for state that several replicas of the gateway share"`
	Asks           Asks          `yaml:"asks" reload:"true" doc:"questions of upstreams to users"`
	Limits         Limits        `yaml:"limits" doc:"bounds on the use of resources by clients"`
	Results        Results       `yaml:"results" reload:"true" doc:"storage of long results of tools, see max_result of a profile"`
	Embeddings     Embeddings    `yaml:"embeddings" doc:"a server of embeddings, by which search_tools finds tools by meaning too"`
	Telemetry      Telemetry     `yaml:"telemetry" doc:"logs and records"`

	// Warnings are about keys that were accepted without effect or under another name, sorted
	// by position.
	Warnings []Warning `yaml:"-"`

	expansions []expansion                 // the values of ${…}
	variables  func(string) (string, bool) // those that ${NAME} finds, nil for Default
}

// Variable returns the value that ${NAME} has in the file: that of the environment, or else of env_file.
func (c *Config) Variable(name string) (string, bool) {
	if c.variables == nil {
		return "", false
	}
	return c.variables(name)
}

// Compression says which answers are compressed for clients that accept it.
type Compression string

// The values of compression.
const (
	CompressAuto   Compression = "auto"
	CompressAlways Compression = "always"
	CompressLists  Compression = "lists"
	CompressOff    Compression = "off"
)

// Admin is the address for operators.
type Admin struct {
	Listen  string `yaml:"listen" default:"127.0.0.1:9090" format:"address" doc:"address of /healthz, /readyz and /metrics"`
	Token   Secret `yaml:"token" doc:"bearer token for the console, reload and profiles; without one they serve only programs on this machine, and no proxies"`
	Pprof   bool   `yaml:"pprof" default:"false" doc:"serve Go profiles under /debug/pprof"`
	UI      UI     `yaml:"ui" default:"true" enum:"true|false|public" doc:"serve the console at /ui; public also serves it at the main address, for principals that a rule with what.admin allows"`
	Actions bool   `yaml:"actions" default:"false" doc:"let the console act, not only show: accept changed definitions, revoke grants, call tools"`
}

// check warns of actions that nothing proves to be those of a person.
func (a *Admin) check(m *mapping) {
	if a.Actions && a.Token.IsZero() && !m.intended["token"] {
		m.warnf("actions", "without admin.token every program on this machine can act in the console, MCP servers included; set admin.token")
	}
}

// UI says where the console is served.
type UI string

// The values of admin.ui.
const (
	UIOn     UI = "true" // at the admin address
	UIOff    UI = "false"
	UIPublic UI = "public" // at the main address too
)

// Namespace says how public names are built.
type Namespace struct {
	Separator string `yaml:"separator" default:"__" format:"separator" doc:"separator between an upstream's prefix and a name"`
}

// Scripts bound each run of a script.
type Scripts struct {
	Steps    int           `yaml:"steps" default:"1000000" min:"1000" max:"1000000000" doc:"steps that a script may take; a loop takes about 5 for each turn and operation"`
	Calls    int           `yaml:"calls" default:"100" min:"1" max:"10000" doc:"calls of tools that a script may make, searches included"`
	Parallel int           `yaml:"parallel" default:"8" min:"1" max:"100" doc:"calls of a script at the same time"`
	Time     time.Duration `yaml:"time" default:"2m" min:"100ms" max:"24h" doc:"how long a script may take, without the time in which a user is asked something; of that at most 10s are computing"`
	Output   Size          `yaml:"output" default:"64KiB" min:"1KiB" max:"16MiB" doc:"bytes that a script may print, and bytes that it may return"`
}

// Resources says how resources are shown to clients.
type Resources struct {
	Enrich bool `yaml:"enrich" default:"true" doc:"add the metadata of the lists to the contents of resources"`
}

// Bridge is about the translation between clients and upstreams of different eras.
type Bridge struct {
	ParkTTL    time.Duration `yaml:"park_ttl" reload:"true" default:"5m" min:"1s" doc:"how long a call waits for a modern client to return with answers"`
	AskTimeout time.Duration `yaml:"ask_timeout" reload:"true" default:"5m" min:"1s" doc:"how long a client may take to answer a question of an upstream"`
	StateTTL   time.Duration `yaml:"state_ttl" reload:"true" default:"24h" min:"1s" doc:"how long a requestState of a modern upstream is valid"`
	Keys       []Secret      `yaml:"keys" format:"seal-key" doc:"keys that seal request states and ids of sessions, the first for new ones; empty means a random key for each start, with which sessions end"`
}

// SealKeys returns the keys as bytes. Load has checked their form.
func (b Bridge) SealKeys() [][]byte { return sealKeys(b.Keys) }

func sealKeys(texts []Secret) [][]byte {
	var keys [][]byte
	for _, k := range texts {
		if key := sealKey(k.Reveal()); key != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// Asks are questions of upstreams to users.
type Asks struct {
	Label bool `yaml:"label" default:"true" doc:"begin each question with the name of the upstream that asks"`
}

// Limits bound the use of resources by clients.
type Limits struct {
	MaxMessage  Size          `yaml:"max_message" default:"16MiB" min:"1KiB" max:"1GiB" doc:"largest message accepted from a client or an upstream; the memory for all bodies together follows from it"`
	MaxDepth    int           `yaml:"max_depth" default:"1000" min:"8" max:"10000" doc:"deepest nesting of a message"`
	MaxSessions int           `yaml:"max_sessions" default:"10000" min:"1" max:"10000000" doc:"legacy sessions at one time"`
	SessionIdle time.Duration `yaml:"session_idle" default:"30m" min:"1ms" doc:"how long an unused legacy session is kept"`
}

// Telemetry is about logs and records.
type Telemetry struct {
	Log   Log           `yaml:"log" doc:"the log, on stderr"`
	Audit Audit         `yaml:"audit" doc:"the record of decisions and calls"`
	OTLP  OTLP          `yaml:"otlp" doc:"traces, metrics and log lines for an OpenTelemetry collector"`
	Slow  time.Duration `yaml:"slow" reload:"true" default:"5s" min:"0s" doc:"calls that take at least this long are logged with the time in each stage; 0s logs none"`
}

// AuditStdout is the value of Audit.File for standard output.
const AuditStdout = "-"

// Audit is the record of decisions and calls, one JSON object on each line.
type Audit struct {
	File      string   `yaml:"file" doc:"file that decisions and calls are recorded in, - for standard output; empty means no record"`
	Arguments bool     `yaml:"arguments" default:"false" doc:"whether to record the arguments of tools and prompts, and not only their digest"`
	Redact    []string `yaml:"redact" format:"redact-path" doc:"paths in the arguments whose values are not recorded, such as password, auth.token, items.*.key or **.secret"`
	MaxSize   Size     `yaml:"max_size" default:"100MiB" min:"1MiB" doc:"size at which the file is renamed and a new one begun"`
	MaxFiles  int      `yaml:"max_files" default:"10" min:"0" max:"100000" doc:"number of renamed files to keep; 0 keeps all"`
	Sync      bool     `yaml:"sync" default:"false" doc:"whether the disk has the record of a call before the call is made, which a power failure then keeps; without, the operating system has it"`
}

// check warns of keys without effect.
func (a *Audit) check(m *mapping) {
	switch {
	case a.File == "" && a.Arguments:
		m.warnf("arguments", "has no effect without telemetry.audit.file")
	case len(a.Redact) > 0 && !a.Arguments:
		m.warnf("redact", "has no effect without arguments: true; only the digest of arguments is recorded")
	}
	switch {
	case a.Sync && a.File == "":
		m.warnf("sync", "has no effect without telemetry.audit.file")
	case a.Sync && a.File == AuditStdout:
		m.warnf("sync", "has no effect on standard output; name a file in telemetry.audit.file")
	}
	if a.File != "" && a.File != AuditStdout {
		a.File = inFolder(m.d.dir, a.File)
	}
}

// LogLevel is the lowest level that is logged.
type LogLevel string

// The levels of telemetry.log.level. LevelAuto is LogWarn for gateway stdio, whose host shows
// its log to users, and LogInfo otherwise.
const (
	LevelAuto LogLevel = "auto"

	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogFormat is the format of a log line.
type LogFormat string

// The formats of telemetry.log.format; LogAuto is LogConsole on a terminal and
// LogJSON elsewhere.
const (
	LogAuto    LogFormat = "auto"
	LogConsole LogFormat = "console"
	LogJSON    LogFormat = "json"
)

// Log is the log on stderr.
type Log struct {
	Level  LogLevel  `yaml:"level" default:"auto" enum:"auto|debug|info|warn|error" doc:"lowest level that is logged; auto is warn for gateway stdio, else info"`
	Format LogFormat `yaml:"format" default:"auto" enum:"auto|console|json" doc:"format of a line; auto is console on a terminal, else json"`
}

// document is a file: a Config, with the upstreams as a user writes them. The aliases are the
// top-level keys of hosts' configurations.
type document struct {
	Config    `yaml:",inline"`
	Upstreams []entry `yaml:"upstreams" reload:"true" alias:"mcpServers|servers" keyed:"true" doc:"the MCP servers behind the gateway, by name"`
}

// Default returns the configuration with every default and without upstreams.
func Default(env func(string) (string, bool)) *Config {
	c := new(Config)
	setDefaults(reflect.ValueOf(c).Elem())
	c.derive(env, "")
	return c
}

// Override replaces the addresses of the keys listen and admin.listen by the values of flags, under the
// rules of those keys; "" keeps an address. The error begins with the flag, and leaves the
// configuration unchanged.
func (c *Config) Override(listen, admin string) error {
	next := *c
	for _, o := range []struct {
		flag, address string
		to            *string
	}{{"--listen", listen, &next.Listen}, {"--admin-listen", admin, &next.Admin.Listen}} {
		if o.address == "" {
			continue
		}
		address, err := formats["address"](o.address)
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.flag, o.address, err)
		}
		*o.to = address
	}
	flag, address := "--listen", listen
	if listen == "" {
		flag, address = "--admin-listen", admin
	}
	if exposed := next.exposed(listen); listen != "" && exposed != "" {
		return fmt.Errorf("--listen %s: %s", listen, exposed)
	}
	if sameAddress(next.Listen, next.Admin.Listen) {
		return fmt.Errorf("%s %s: listen and admin.listen would be the same address; give each its own, with --listen and --admin-listen", flag, address)
	}
	*c = next
	return nil
}

// sameAddress reports whether the spelling of both addresses is the same, except for the port 0.
func sameAddress(a, b string) bool { return a == b && !strings.HasSuffix(a, ":0") }

// exposed is the error of serving on an address without authentication, empty if there is none.
// Everyone who reaches this machine could call. So could every web page that they visit, by rebinding its
// own name to the address, unless the names that clients use are configured.
func (c *Config) exposed(address string) string {
	switch {
	case !c.Auth.Has(AuthNone) || isLoopback(address):
		return ""
	case !c.Auth.Insecure:
		return exposedMsg
	case len(c.AllowedHosts) == 0 && c.PublicURL == "":
		return reboundMsg
	}
	return ""
}

const (
	exposedMsg = "would serve everyone who can reach this machine, since auth.mode is none; " +
		"listen on a loopback address such as 127.0.0.1:8080, or set auth.insecure: true if something else keeps strangers out"
	reboundMsg = "with auth.insecure any web page that somebody there visits could call, by giving its own name this address (DNS rebinding); " +
		"set allowed_hosts to the names that clients use, such as [gateway.internal, 192.0.2.10], or public_url to the URL"
)

// derive sets the defaults that depend on other keys or the environment. A relative state_dir is
// relative to folder.
func (c *Config) derive(env func(string) (string, bool), folder string) {
	c.Policy.deriveDefault(&c.Auth)
	if c.StateDir == "" {
		c.StateDir = userStateDir(env)
	} else {
		c.StateDir = inFolder(folder, c.StateDir)
	}
}

// userStateDir is the user's state folder by the XDG base directory specification, empty if the
// environment names none.
func userStateDir(env func(string) (string, bool)) string {
	get := func(name string) string {
		v, _ := env(name)
		return v
	}
	if dir := get("XDG_STATE_HOME"); filepath.IsAbs(dir) { // the specification ignores relative paths
		return filepath.Join(dir, "mcpgateway")
	}
	if home := get("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "mcpgateway")
	}
	if dir := cmp.Or(get("LOCALAPPDATA"), get("USERPROFILE")); dir != "" {
		return filepath.Join(dir, "mcpgateway", "state")
	}
	return ""
}

// inFolder resolves a path relative to the folder of the configuration, so that the configuration does
// not depend on the working directory.
func inFolder(folder, path string) string {
	if path == "" || folder == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
