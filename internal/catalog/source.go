package catalog

import (
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/wire"
)

// Options say how a table is made.
type Options struct {
	Policy *policy.Policy // never nil

	PageItems int // most items of one page; 0 means DefaultPageItems
	PageBytes int // most bytes of a page's items, if it has more than one; 0 means DefaultPageBytes

	// ServerInfo goes into the _meta of modern pages, so that nobody has to
	// edit them afterwards. Nil for none.
	ServerInfo wire.Raw

	// Schemas keeps compiled schemas, and what was found out about items, from one
	// table to the next; nil: every table does all of it anew.
	Schemas *conform.Cache

	// Enrich says that resources get the type that their MIME type tells, and
	// results the metadata that the catalog has: see [Table.Enriches].
	Enrich bool
}

// The bounds of a page where none are given.
const (
	DefaultPageItems = 1000
	DefaultPageBytes = 4 << 20
)

// Source is what one upstream brings into the table. Nobody changes what it
// refers to afterwards.
type Source struct {
	Naming       *namespace.Naming
	Revision     wire.Revision // "" while it is not known
	Capabilities wire.Raw      // nil while they are not known
	Instructions string
	Items        [call.Kinds][]wire.Raw // valid JSON each, in the upstream's own order, with native names
	Freshness    Freshness
	Down         *Down // nil while the upstream is ready
	// NeverListed says that nobody knows what the upstream lists: no catalog of it was
	// ever gathered. It may have any name that nothing else keeps from it.
	NeverListed bool
	Rules       Rules
	// HeldTools says for each tool why it is not to be published, "" for those
	// that may be; nil: all may be.
	HeldTools []string
}

// Rules are what the configuration says of how an upstream's items and answers
// are treated.
type Rules struct {
	Conformance    conform.Mode
	ValidateInput  bool // arguments are held against the inputSchema of a tool
	Sanitize       sanitize.Classes
	ToolOverride   map[string]Override // by native name
	PromptOverride map[string]Override
}

// Override says how an item is published otherwise than its upstream has it.
type Override struct {
	Name        string // takes the place of the native name in the public one; "" keeps it
	Title       string // "" keeps the upstream's
	Description string // "" keeps the upstream's
	Hidden      bool   // it is not published, and cannot be used
}

func (r *Rules) override(kind call.Kind, native string) Override {
	switch kind {
	case call.Tool:
		return r.ToolOverride[native]
	case call.Prompt:
		return r.PromptOverride[native]
	default:
		return Override{}
	}
}

// Freshness says how long a catalog may be taken for current.
type Freshness struct {
	At      time.Time     // when it was gathered
	TTL     time.Duration // for how long since then; 0 or less: not at all
	Private bool          // it is for one principal and must not be shared
}

// Down says why and since when an upstream does not serve. The reason is for
// clients: it holds no secret and no internal address.
type Down struct {
	Since  time.Time
	Reason string
	// Starting says that the first attempt to reach it has not ended.
	Starting bool
}

// Part is one upstream's part of a table. It is immutable.
type Part struct {
	source Source
	naming *namespace.Naming
	index  int // place in the order of the configuration
}

// Upstream returns the upstream's name.
func (p *Part) Upstream() string { return p.naming.Upstream() }

// Naming returns the naming to rewrite with. Unlike the source's it knows the
// URIs that were renamed because they clash.
func (p *Part) Naming() *namespace.Naming { return p.naming }

// Revision returns the revision that the upstream speaks, "" when unknown.
func (p *Part) Revision() wire.Revision { return p.source.Revision }

// Capabilities returns what the upstream declared, nil when unknown.
func (p *Part) Capabilities() wire.Raw { return p.source.Capabilities }

// Rules returns how the upstream's items and answers are treated. The caller
// must not change it.
func (p *Part) Rules() *Rules { return &p.source.Rules }

// Down returns why the upstream does not serve, nil when it does.
func (p *Part) Down() *Down { return p.source.Down }

// empty reports whether nothing is known of what the upstream offers.
func (p *Part) empty() bool {
	for _, items := range p.source.Items {
		if len(items) > 0 {
			return false
		}
	}
	return true
}

// hasResources reports whether the upstream can be asked for resources, as far
// as is known.
func (p *Part) hasResources() bool {
	caps := p.source.Capabilities
	return caps == nil || wire.ValueOf(caps).Get("resources").Exists()
}

// leads returns what the public names of items begin with that the part may have
// beside those that it lists: any where its catalog is not known, else resources.
func (p *Part) leads() [call.Kinds][]string { return p.leadsOf(p.empty()) }

// leadsOf takes the catalog for unknown, or not.
func (p *Part) leadsOf(unknown bool) [call.Kinds][]string {
	var leads [call.Kinds][]string
	if unknown {
		leads[call.Tool] = []string{p.naming.NamePrefix()}
		leads[call.Prompt] = leads[call.Tool]
	}
	switch {
	case !p.hasResources() && !unknown:
	case p.naming.Prefix() == "":
		leads[call.Resource] = []string{""}
	default:
		leads[call.Resource] = []string{p.naming.Prefix() + "+", "ui://" + p.Upstream()}
		if unknown {
			leads[call.Resource] = append(leads[call.Resource], "http:", "https:")
		}
	}
	return leads
}
