package inspect

import (
	"context"
	"encoding/json"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/upstream/connector"
)

// Report is the result of a check. Its JSON form is public: members are added in later
// versions, never renamed or removed.
type Report struct {
	File      string           `json:"file"` // the configuration file, "" for the demo
	OK        bool             `json:"ok"`   // whether no finding is an error
	Upstreams []UpstreamReport `json:"upstreams"`
	Profiles  []ProfileReport  `json:"profiles,omitempty"`
	Probes    []ProbeReport    `json:"probes,omitempty"`
	Findings  []Finding        `json:"findings"`
}

// UpstreamReport is the state of one upstream.
type UpstreamReport struct {
	Name     string          `json:"name"`
	State    string          `json:"state"`           // ready, degraded, down, disabled, unchecked if the check did not connect to it, or unfinished if it was interrupted before
	Start    string          `json:"start,omitempty"` // eager or lazy: when a gateway that serves starts it
	Required bool            `json:"required"`
	Era      string          `json:"era"`      // legacy, modern, or ""
	Revision string          `json:"revision"` // "" if the upstream was not reached
	Server   json.RawMessage `json:"server,omitempty"`
	Items    map[string]int  `json:"items,omitempty"` // how many it lists, by kind in the plural
	// HiddenItems are those of Items that the upstream's own lists and overrides hide from all clients. It is absent if there are none.
	HiddenItems map[string]int `json:"hidden_items,omitempty"`
	Violations  int            `json:"faults"`         // violations of the specification
	Seconds     float64        `json:"seconds"`        // the duration of the first attempt to connect
	URLs        []URLReport    `json:"urls,omitempty"` // if it has several
}

// ProfileReport counts the items of a profile that the lists of their upstreams do not hide, before rules of policy hide any.
type ProfileReport struct {
	Name  string         `json:"name"`
	Path  string         `json:"path"`  // of its endpoint
	Items map[string]int `json:"items"` // by kind in the plural
}

// URLReport is how one of several URLs of an upstream is.
type URLReport struct {
	URL      string `json:"url"`      // without the values of its query
	Sessions int    `json:"sessions"` // that use it
	Why      string `json:"why,omitempty"`
}

// ProbeReport is the result of probing one item.
type ProbeReport struct {
	Upstream   string          `json:"upstream"`
	Kind       string          `json:"kind"`   // tool, prompt or resource
	Item       string          `json:"item"`   // the native name or URI
	Public     string          `json:"public"` // the public name or URI
	Method     string          `json:"method"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Outcome    string          `json:"outcome"` // see Outcome.String
	Why        string          `json:"why,omitempty"`
	Needs      []string        `json:"needs,omitempty"` // the arguments that were missing
	Violations int             `json:"faults"`          // violations of the specification
	Asked      int             `json:"asked,omitempty"` // questions of the upstream, which no user answered
	Seconds    float64         `json:"seconds"`
}

// The severities of findings.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// Unfinished is the state of an upstream, and what a finding is about, if a check was interrupted.
const Unfinished = "unfinished"

// Finding is one problem that a check has found: in the configuration, of an upstream or
// of an item. The members that are set depend on the subject.
type Finding struct {
	Severity string `json:"severity"`
	// The values of What are configuration, unset (a variable that an upstream needs), idle (a
	// glob matches nothing), unreachable, degraded, output (lines that are no MCP messages), empty
	// (a profile has nothing), store (it cannot be reached), issuer (its keys cannot be fetched),
	// unfinished (the check was interrupted),
	// the problem of an item (quarantined, clash, …), and the outcome of a probe (error, lost, timeout, refused).
	What     string `json:"what"`
	Message  string `json:"message"`
	Upstream string `json:"upstream,omitempty"`
	Profile  string `json:"profile,omitempty"` // if the finding is about one
	Kind     string `json:"kind,omitempty"`    // of the item: tool, prompt, resource or template
	Item     string `json:"item,omitempty"`    // its native name or URI
	Public   string `json:"public,omitempty"`  // its public name or URI if it is published
	Against  string `json:"against,omitempty"` // the violation, as metrics name it
	Method   string `json:"method,omitempty"`  // of the answer with the problem
	Repaired bool   `json:"mended,omitempty"`  // whether clients get the item without the violation
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Path     string `json:"path,omitempty"` // the key of the configuration
}

// CheckOptions select what is checked.
type CheckOptions struct {
	Upstreams []string // names; none selects all
	// Profiles are the names of the profiles that are checked.
	Profiles []string
	// Unchanged are upstreams whose items clients get as they are (conformance: off).
	// Their violations are reported, but nothing of them is hidden.
	Unchanged map[string]bool
	// UnmatchedGlobs are the globs of the policy that match nothing.
	UnmatchedGlobs []catalog.UnusedGlob
	// Late returns the message about an upstream that is still connecting, for its reason
	// that is known so far, which may be "".
	Late func(upstream, reason string) string

	Probe    []string // upstreams whose items are probed
	Limits   ProbeLimits
	Progress func(upstream string) // is called before an upstream is probed
}

// Check reports the state of the upstreams, the problems of their items, the unmatched
// globs and the results of probes, in this order. If ctx ends, the report is incomplete.
func (i *Inspector) Check(ctx context.Context, o CheckOptions) *Report {
	r := &Report{}
	for _, u := range i.Upstreams() {
		if o.selects(u.Name) {
			r.addUpstream(u, o.Late, ctx.Err() != nil)
		}
	}
	for _, f := range i.Everything().Findings() {
		if o.selects(f.Upstream) {
			r.addItem(f, o.Unchanged[f.Upstream])
		}
	}
	i.addGlobs(r, o.UnmatchedGlobs)
	for _, name := range o.Profiles {
		i.addProfile(r, name)
	}
	for _, name := range o.Probe {
		u := r.upstream(name)
		if u == nil || u.Revision == "" || slices.ContainsFunc(r.Probes, func(p ProbeReport) bool { return p.Upstream == name }) {
			continue // it was not reached, or is named twice
		}
		if o.Progress != nil {
			o.Progress(name)
		}
		for _, p := range i.Probe(ctx, name, o.Limits) {
			r.addProbe(p)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return r
}

func (o *CheckOptions) selects(upstream string) bool {
	return len(o.Upstreams) == 0 || slices.Contains(o.Upstreams, upstream)
}

func (r *Report) upstream(name string) *UpstreamReport {
	if at := slices.IndexFunc(r.Upstreams, func(u UpstreamReport) bool { return u.Name == name }); at >= 0 {
		return &r.Upstreams[at]
	}
	return nil
}

// addUpstream adds an upstream. If the check was interrupted, nothing is known of one that is still connecting.
func (r *Report) addUpstream(u Upstream, late func(upstream, reason string) string, interrupted bool) {
	report := UpstreamReport{
		Name: u.Name, State: u.State.String(), Required: u.Required, Revision: string(u.Revision),
		Server: json.RawMessage(u.Server), Seconds: u.Took.Seconds(), Items: ByKind(u.Items), HiddenItems: u.hiddenItems(),
	}
	if u.Revision != "" {
		report.Era = u.Revision.Era().String()
	}
	for _, at := range u.URLs {
		report.URLs = append(report.URLs, URLReport{at.Name, at.Sessions, at.Reason})
		if at.Reason != "" && (u.State == connector.Ready || u.State == connector.Degraded) {
			r.Findings = append(r.Findings, Finding{Severity: SeverityWarning, What: "unreachable", Upstream: u.Name,
				Message: at.Name + " fails, and the other URLs are used: " + at.Reason})
		}
	}
	if u.Skipped.Lines > 0 {
		r.Findings = append(r.Findings, Finding{Severity: SeverityWarning, What: "output", Upstream: u.Name, Message: u.Skipped.String()})
	}
	f := Finding{Severity: SeverityError, What: "unreachable", Upstream: u.Name, Message: u.Reason}
	switch {
	case u.State == connector.Ready, u.State == connector.Idle:
		f.What = ""
	case u.State == connector.Degraded:
		f.What = "degraded"
	case u.State == connector.Connecting && interrupted:
		if report.State, f.What = Unfinished, Unfinished; u.Reason == "" {
			f.What = ""
		}
	case u.State == connector.Connecting:
		report.State = connector.Down.String()
		if late != nil {
			f.Message = late(u.Name, u.Reason)
		}
	}
	if f.What != "" && len(u.Unset) == 0 { // unset variables are findings about the configuration
		r.Findings = append(r.Findings, f)
	}
	r.Upstreams = append(r.Upstreams, report)
}

func (r *Report) addItem(f catalog.Finding, unchanged bool) {
	found := Finding{
		Severity: SeverityWarning, What: f.Issue.String(), Message: f.Reason,
		Upstream: f.Upstream, Kind: f.Kind.String(), Item: f.Native, Public: f.Public, Repaired: f.Repaired,
	}
	if unchanged && f.Issue == catalog.Quarantined {
		found.What = catalog.Nonconforming.String()
	}
	switch f.Issue {
	case catalog.Quarantined, catalog.Duplicate, catalog.Nonconforming:
		found.Against = f.Against.String()
		if u := r.upstream(f.Upstream); u != nil {
			u.Violations++
		}
	}
	r.Findings = append(r.Findings, found)
}

// addGlobs adds unmatched globs. A glob that may be for items of an upstream whose lists
// are incomplete is left out.
func (i *Inspector) addGlobs(r *Report, globs []catalog.UnusedGlob) {
	for _, glob := range globs {
		incomplete := func(u Upstream) bool { return u.State == connector.Degraded && glob.AppliesTo(u.Name) }
		if !glob.OfUpstreams && slices.ContainsFunc(i.Upstreams(), incomplete) {
			continue
		}
		r.Findings = append(r.Findings, Finding{
			Severity: SeverityWarning, What: "idle", Message: glob.Reason(), Upstream: glob.Upstream, Profile: glob.Profile, File: glob.File, Line: glob.Line, Path: glob.Path(),
		})
	}
}

// addProfile adds a profile, and the problems that its items have in it alone.
func (i *Inspector) addProfile(r *Report, name string) {
	id := endpoint.IDOf(name)
	table, known := i.Table(id), i.Everything().Findings()
	selected, shown := table.Counts(), table.Shown()
	report := ProfileReport{Name: name, Path: endpoint.PathOf(id), Items: ByKind(shown)}
	for _, f := range table.Findings() {
		if !slices.Contains(known, f) {
			r.addItem(f, false)
			r.Findings[len(r.Findings)-1].Profile = name
		}
	}
	down := slices.ContainsFunc(i.Upstreams(), func(u Upstream) bool { return u.Revision == "" })
	if none := [call.Kinds]int{}; shown == none && !down { // an upstream that is down may have its items
		empty := Finding{Severity: SeverityWarning, What: "empty", Profile: name, Path: "profiles." + name, Message: "the profile selects nothing that an upstream lists"}
		if selected != none {
			empty.Message = "the allow and deny lists of the upstreams hide everything that the profile selects"
		}
		r.Findings = append(r.Findings, empty)
	}
	r.Profiles = append(r.Profiles, report)
}

func (r *Report) addProbe(p *ProbeResult) {
	violations := len(p.Verdict.Violations) + p.Verdict.More
	r.Probes = append(r.Probes, ProbeReport{
		Upstream: p.Upstream, Kind: p.Kind.String(), Item: p.Native, Public: p.Public, Method: p.Method, Arguments: json.RawMessage(p.Arguments),
		Outcome: p.Outcome.String(), Why: p.Reason, Needs: p.Missing, Violations: violations, Asked: p.Asks, Seconds: p.Took.Seconds(),
	})
	if u := r.upstream(p.Upstream); u != nil {
		u.Violations += violations
	}
	about := Finding{
		Severity: SeverityWarning, Upstream: p.Upstream, Kind: p.Kind.String(), Item: p.Native, Public: p.Public, Method: p.Method,
	}
	for _, v := range p.Verdict.Violations {
		found := about
		found.What, found.Message, found.Against, found.Repaired = "nonconforming", v.String(), v.Kind.String(), v.Repaired
		r.Findings = append(r.Findings, found)
	}
	switch {
	case p.Verdict.Refused:
		about.Severity, about.What, about.Message = SeverityError, "refused", "clients get an error in its place, as the upstream's conformance demands"
	case p.Outcome == ProbeLost:
		about.Severity, about.What, about.Message = SeverityError, "lost", p.Reason
	case p.Outcome == ProbeError, p.Outcome == ProbeTimeout:
		about.What, about.Message = p.Outcome.String(), p.Reason
	default:
		return
	}
	r.Findings = append(r.Findings, about)
}
