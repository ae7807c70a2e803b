package inspect

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/call"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// Status is how a running gateway is at one moment. Its JSON form is public: members are
// added in later versions, never renamed or removed.
type Status struct {
	Version  string    `json:"version"`
	PID      int       `json:"pid"`
	Mode     string    `json:"mode"`           // http or stdio
	File     string    `json:"file,omitempty"` // the configuration file; absent for the demo
	Since    time.Time `json:"since"`
	URL      string    `json:"mcp_url,omitempty"`   // of MCP, for mode http
	AdminURL string    `json:"admin_url,omitempty"` // of health and metrics
	Waiting  []string  `json:"waiting,omitempty"`   // what it waits for before it is ready
	// Failing has failures that do not affect readiness, one sentence each: a store that does not answer, issuers
	// whose keys cannot be fetched, and new TLS files, also those of an upstream, that cannot be used.
	Failing []string `json:"failing,omitempty"`
	// UnmatchedGlobs are globs of rules that deny or confirm, and of deny lists, that match nothing, the first of them.
	UnmatchedGlobs []string `json:"unmatched_globs,omitempty"`
	// AuditError is why the last line of the audit could not be written. Calls are refused
	// until one can be.
	AuditError string           `json:"audit_error,omitempty"`
	Sessions   int              `json:"sessions"` // of legacy clients
	Streams    int              `json:"streams"`  // open event streams
	Calls      int              `json:"calls"`    // of all upstreams, also removed ones
	Upstreams  []UpstreamStatus `json:"upstreams"`
	Profiles   []ProfileStatus  `json:"profiles,omitempty"`    // if the configuration has any
	Reload     *LastReload      `json:"reload,omitempty"`      // absent before the first reload
	Change     *LastReload      `json:"last_change,omitempty"` // the last reload that changed something
}

// UpstreamStatus is how one upstream is.
type UpstreamStatus struct {
	Name     string    `json:"name"`
	State    string    `json:"state"` // connecting, ready, degraded, down or idle
	Since    time.Time `json:"since"` // of the state
	Required bool      `json:"required,omitempty"`
	Era      string    `json:"era,omitempty"` // legacy or modern; absent before the first handshake
	Revision string    `json:"revision,omitempty"`
	// Transport is that of the connection, or the configured one before the first.
	Transport string          `json:"transport,omitempty"`
	Server    json.RawMessage `json:"server,omitempty"`
	Items     map[string]int  `json:"items"` // by kind in the plural, without tools that pins hide
	// HiddenItems are those of Items that the upstream's own lists and overrides hide from all clients. It is absent if there are none.
	HiddenItems map[string]int `json:"hidden_items,omitempty"`
	HeldTools   int            `json:"held_tools,omitempty"` // that pins hide, without those that a person has refused
	Calls       int            `json:"calls"`
	Failed      int            `json:"failed"`                // calls with the outcome error or unavailable
	P95         *float64       `json:"p95_seconds,omitempty"` // of all calls; absent without calls
	Restarts    int            `json:"restarts,omitempty"`    // conversations that were opened after the first
	Reason      string         `json:"reason,omitempty"`      // why it is not ready, and what to do
	// GrantMissing says that the gateway does not have its own grant for it.
	GrantMissing bool `json:"grant_missing,omitempty"`
	// LastError is the last reason for which it was not ready.
	LastError   string      `json:"last_error,omitempty"`
	LastErrorAt *time.Time  `json:"last_error_at,omitempty"`
	LastFailed  *FailedCall `json:"last_failed_call,omitempty"`
	// BreakerSince is when the first circuit breaker in BreakerState opened. It is absent while all are closed.
	BreakerSince *time.Time `json:"breaker_open_since,omitempty"`
	// BreakerState is BreakerOpen or BreakerHalfOpen with BreakerSince.
	BreakerState string      `json:"breaker_state,omitempty"`
	URLs         []URLReport `json:"urls,omitempty"` // if it has several
	// Skipped is absent while all lines of its standard output were messages.
	Skipped *connector.SkippedOutput `json:"skipped_output,omitempty"`
}

// The states of circuit breakers that are not closed: calls fail immediately, or the next one is tried.
const (
	BreakerOpen     = "open"
	BreakerHalfOpen = "half-open"
)

// FailedCall is a call that an upstream answered with an error or did not answer.
type FailedCall struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	Item    string    `json:"item,omitempty"` // absent if the client may have written a part of its name
	Request string    `json:"request"`        // the request id, as in the log and the audit
	Reason  string    `json:"reason"`
}

// ProfileStatus is how one profile is.
type ProfileStatus struct {
	Name  string         `json:"name"`
	URL   string         `json:"mcp_url,omitempty"` // for mode http
	Items map[string]int `json:"items"`             // by kind in the plural, without those that the lists of their upstreams hide
}

// LastReload is the last reload of the configuration.
type LastReload struct {
	At time.Time `json:"at"`
	ReloadReport
}

// ReloadReport is the result of a reload. It is also the answer to POST /-/reload.
type ReloadReport struct {
	Status       string   `json:"status"` // reloaded, unchanged or refused
	Added        []string `json:"added,omitempty"`
	Removed      []string `json:"removed,omitempty"`
	Changed      []string `json:"changed,omitempty"`
	OtherKeys    bool     `json:"other_keys,omitempty"`
	Keys         []string `json:"keys,omitempty"`        // outside of upstreams, that have changed
	RulesAdded   []string `json:"rules_added,omitempty"` // of policy and profiles, the first of them, as below
	RulesRemoved []string `json:"rules_removed,omitempty"`
	RulesChanged []string `json:"rules_changed,omitempty"`
	NeedsRestart []string `json:"needs_restart,omitempty"`
	Causes       []string `json:"causes,omitempty"` // file, sighup or api
	// Kept are upstreams that need variables that are not set, or files that cannot be used. They keep their connection; other keys apply.
	Kept []KeptUpstream `json:"kept,omitempty"`
	// Errors are why the reload was refused. If it was not, they say which variables and files keep upstreams down; only the
	// answer has these.
	Errors []ReloadError `json:"errors,omitempty"`
	// Warnings are those of the configuration, and in the answer also globs that match nothing, as Status.UnmatchedGlobs.
	Warnings []ReloadError `json:"warnings,omitempty"`
	// Failing has the failures of what a reload reads beside the configuration: new files of the key tls, or of the
	// keys ca and client_cert of an upstream, that cannot be used. CertificateExpires is when the certificate of that key expires that is in use. Both are only in the answer.
	Failing            []string   `json:"failing,omitempty"`
	CertificateExpires *time.Time `json:"certificate_expires,omitempty"`
	// CertificateRenewed is when changed files of the key tls were taken into use, if no answer has said so before.
	CertificateRenewed *time.Time `json:"certificate_renewed,omitempty"`
	// Noticed is the reload that has applied the present files, if this one found them in force, and nobody
	// has asked for one since. It is only in the answer.
	Noticed *LastReload `json:"noticed,omitempty"`
}

// KeptUpstream is an upstream that keeps values through a reload, because variables are not set or files cannot be used.
type KeptUpstream struct {
	Upstream string `json:"upstream"`
	// Keeps is "connection" for all keys of the connection, and other keys that refer to one of the variables or files.
	Keeps     []string      `json:"keeps"`
	Variables []string      `json:"variables"`
	Errors    []ReloadError `json:"errors"` // one for each place that refers to one of them, or malformed line of an envFile
}

// String says what the upstream keeps, and why.
func (k KeptUpstream) String() string {
	return fmt.Sprintf("%s keeps %s as before, because %s; its other keys apply", k.Upstream, k.kept(), k.reason())
}

// kept names the values that the upstream keeps.
func (k KeptUpstream) kept() string {
	names := slices.Clone(k.Keeps)
	if len(names) == 0 { // a gateway of an earlier version
		names = []string{"connection"}
	}
	if i := slices.Index(names, "connection"); i >= 0 {
		names[i] = "its connection"
	}
	return strings.Join(names, ", ")
}

// reason says which variables are not set. Without one, the upstream lacks a file: an envFile, or one of ${file:PATH}.
func (k KeptUpstream) reason() string {
	switch len(k.Variables) {
	case 0:
		return "a file that it needs cannot be used"
	case 1:
		return k.Variables[0] + " is not set"
	}
	return strings.Join(k.Variables, ", ") + " are not set"
}

// The results of a reload.
const (
	ReloadDone      = "reloaded"
	ReloadUnchanged = "unchanged"
	ReloadRefused   = "refused"
)

// ReloadError is one reason for which a reload was refused or an upstream is down, or a warning.
type ReloadError struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

// Process has the facts that an [Inspector] cannot read from its gateway.
type Process struct {
	Version, Mode, File, URL, AdminURL string
	Started                            time.Time
	Waiting, Failing, UnmatchedGlobs   []string
	AuditError                         string
	Reload, Change                     *LastReload
	Metrics                            prometheus.Gatherer
	Slowest                            Slowest
}

// Slowest returns the longest time that a call of an upstream took since the start, 0 without calls. It bounds
// what is estimated from a histogram.
type Slowest func(upstream string) time.Duration

// Status returns how the gateway is now.
func (i *Inspector) Status(p Process) (*Status, error) {
	s := &Status{
		Version: p.Version, PID: os.Getpid(), Mode: p.Mode, File: p.File, Since: p.Started, URL: p.URL, AdminURL: p.AdminURL,
		Waiting: p.Waiting, Failing: p.Failing, UnmatchedGlobs: p.UnmatchedGlobs, AuditError: p.AuditError, Reload: p.Reload, Change: p.Change, Upstreams: []UpstreamStatus{},
	}
	all, err := gather(p.Metrics, p.Slowest)
	if err != nil {
		return nil, err
	}
	s.Sessions, s.Streams, s.Calls = int(all.sessions), int(all.streams), int(all.calls)
	for _, u := range i.Upstreams() {
		up := u.status(all.upstreams[u.Name])
		up.Restarts, up.GrantMissing = int(all.restarts[u.Name]), all.grantMissing[u.Name]
		s.Upstreams = append(s.Upstreams, up)
	}
	s.Profiles = i.profiles(p.URL)
	return s, nil
}

// profiles returns how the profiles are, nil if the configuration has none. url is that of the
// default one, "" without.
func (i *Inspector) profiles(url string) (out []ProfileStatus) {
	all := i.gateway.Profiles()
	if len(all) < 2 && i.gateway.Profile("") == nil {
		return nil
	}
	base, hasURL := strings.CutSuffix(url, endpoint.Path)
	for _, p := range all {
		s := ProfileStatus{Name: p.Name, Items: ByKind(p.Items)}
		if hasURL {
			s.URL = base + endpoint.PathOf(endpoint.IDOf(p.Name))
		}
		out = append(out, s)
	}
	return out
}

// ByKind returns numbers by the kinds in the plural.
func ByKind(numbers [call.Kinds]int) map[string]int {
	m := make(map[string]int, len(numbers))
	for kind, n := range numbers {
		m[call.Kind(kind).Plural()] = n
	}
	return m
}

// hiddenItems returns how many items are hidden by kind, nil if none is.
func (u Upstream) hiddenItems() map[string]int {
	if u.Hidden == [call.Kinds]int{} {
		return nil
	}
	return ByKind(u.Hidden)
}

func (u Upstream) status(t *traffic) UpstreamStatus {
	s := UpstreamStatus{
		Name: u.Name, State: u.State.String(), Since: u.Since, Required: u.Required, Revision: string(u.Revision),
		Server: json.RawMessage(u.Server), Items: ByKind(u.Items), HiddenItems: u.hiddenItems(), HeldTools: u.HeldTools, Reason: u.Reason, Transport: u.Transport,
	}
	if u.Revision != "" {
		s.Era = u.Revision.Era().String()
	}
	if u.LastError != nil {
		s.LastError, s.LastErrorAt = u.LastError.Reason, &u.LastError.At
	}
	s.LastFailed = u.LastFailed
	if u.OpenBreakers.Sessions > 0 {
		s.BreakerSince, s.BreakerState = &u.OpenBreakers.Since, BreakerOpen
	} else if u.HalfOpenBreakers.Sessions > 0 {
		s.BreakerSince, s.BreakerState = &u.HalfOpenBreakers.Since, BreakerHalfOpen
	}
	for _, at := range u.URLs {
		s.URLs = append(s.URLs, URLReport{at.Name, at.Sessions, at.Reason})
	}
	if u.Skipped.Lines > 0 {
		s.Skipped = &u.Skipped
	}
	if t != nil {
		s.Calls, s.Failed, s.P95 = int(t.calls), int(t.failed), t.quantile(0.95)
	}
	return s
}

// measured has the values of the metrics.
type measured struct {
	sessions, streams, calls float64
	upstreams                map[string]*traffic
	restarts                 map[string]float64 // by upstream
	grantMissing             map[string]bool
}

// traffic has the values of the metrics of one upstream.
type traffic struct {
	calls, failed float64
	counts        map[float64]uint64 // durations up to a bound, by the bound
	total         uint64
	slowest       float64 // no duration is longer, in seconds
}

// gather reads the metrics that a status shows.
func gather(g prometheus.Gatherer, slowest Slowest) (*measured, error) {
	families, err := g.Gather()
	if err != nil {
		return nil, err
	}
	m := &measured{upstreams: make(map[string]*traffic), restarts: make(map[string]float64), grantMissing: make(map[string]bool)}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			label := make(map[string]string)
			for _, l := range metric.GetLabel() {
				label[l.GetName()] = l.GetValue()
			}
			switch f.GetName() {
			case "mcp_gateway_sessions":
				m.sessions += metric.GetGauge().GetValue()
			case "mcp_gateway_streams":
				m.streams += metric.GetGauge().GetValue()
			case "mcp_gateway_upstream_restarts_total":
				m.restarts[label["upstream"]] = metric.GetCounter().GetValue()
			case "mcp_gateway_upstream_grant_missing":
				m.grantMissing[label["upstream"]] = metric.GetGauge().GetValue() > 0
			case "mcp_gateway_requests_total":
				if t := m.of(label); t != nil {
					n := metric.GetCounter().GetValue()
					m.calls += n
					t.calls += n
					if label["outcome"] == "error" || label["outcome"] == "unavailable" {
						t.failed += n
					}
				}
			case "mcp_gateway_request_duration_seconds":
				if t := m.of(label); t != nil {
					h := metric.GetHistogram()
					t.total += h.GetSampleCount()
					for _, b := range h.GetBucket() {
						t.counts[b.GetUpperBound()] += b.GetCumulativeCount()
					}
				}
			}
		}
	}
	for name, t := range m.upstreams {
		t.slowest = slowest(name).Seconds() // after the histogram, so that it is of all of its durations
	}
	return m, nil
}

// of returns the traffic of the upstream of a metric, nil for what the gateway answers itself.
func (m *measured) of(label map[string]string) *traffic {
	name := label["upstream"]
	if method := wire.MethodOf(label["method"]); name == "" || method == nil || method.Kind != wire.KindCall {
		return nil
	}
	t := m.upstreams[name]
	if t == nil {
		t = &traffic{counts: make(map[float64]uint64)}
		m.upstreams[name] = t
	}
	return t
}

// quantile estimates a quantile of the durations in seconds, as histogram_quantile of Prometheus does, but not above
// the slowest one: a bucket may be much wider than the durations in it. It is nil without durations.
func (t *traffic) quantile(q float64) *float64 {
	if t.total == 0 {
		return nil
	}
	bounds := make([]float64, 0, len(t.counts))
	for b := range t.counts {
		bounds = append(bounds, b)
	}
	slices.Sort(bounds)
	rank, lower, below := q*float64(t.total), 0.0, 0.0
	for _, bound := range bounds {
		count := float64(t.counts[bound])
		if count >= rank && count > below {
			v := min(lower+(bound-lower)*(rank-below)/(count-below), t.slowest)
			return &v
		}
		lower, below = bound, count
	}
	return &lower // longer than the last bound
}
