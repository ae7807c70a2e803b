package catalog

import (
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/wire"
)

// Options configure a table.
type Options struct {
	Policy *policy.Policy // of all profiles; never nil

	// Profile selects what the table contains. Nil selects everything.
	Profile *profile.Profile

	PageItems int // most items of one page; 0 means DefaultPageItems
	PageBytes int // most bytes of a page's items, if it has more than one; 0 means DefaultPageBytes

	// ServerInfo is put into the _meta of modern pages when they are encoded. Nil for none.
	ServerInfo wire.Raw

	// Schemas keeps compiled schemas and the results of checks from one table to the next. If
	// it is nil, every table compiles and checks again.
	Schemas *conform.Cache

	// Docs keeps the search documents of tools from one table to the next. Nil keeps none.
	Docs *Docs

	// Enrich adds types to resources by their MIME types, and metadata of the catalog to
	// results: see [Table.Enriches].
	Enrich bool
}

// The default bounds of a page.
const (
	DefaultPageItems = 1000
	DefaultPageBytes = 4 << 20
)

// Source is the contribution of one upstream to a table. It must not be changed.
type Source struct {
	Naming       *namespace.Naming
	Revision     wire.Revision // "" if unknown
	Capabilities wire.Raw      // nil if unknown
	Instructions string
	Items        [call.Kinds][]wire.Raw // valid JSON with native names, in the order of the upstream
	Freshness    Freshness
	Down         *Down // nil if the upstream is up
	// Failed says of each list why it could not be gathered, nil for lists that could. Items
	// of such a list are the last ones that are known.
	Failed [call.Kinds]*Down
	// NeverListed says that the upstream was never listed. It may have any name that no other
	// rule keeps from it.
	NeverListed bool
	Rules       Rules
	// HeldTools says for each tool why it is held back, "" for tools that may be published. Nil
	// holds back none.
	HeldTools []string
}

// Rules are how the configuration treats items and results of an upstream.
type Rules struct {
	Conformance    conform.Mode
	ValidateInput  bool // check arguments against the inputSchema of the tool
	Sanitize       sanitize.Classes
	ToolOverride   map[string]Override // by native name
	PromptOverride map[string]Override
	Tags           []string // of the upstream; searches find its tools by them
}

// Override says how an item is published differently.
type Override struct {
	Name        string // instead of the native name in the public one; "" for none
	Title       string // "" keeps the upstream's
	Description string // "" keeps the upstream's
	Hidden      bool   // it is not published, and cannot be used

	Annotations map[string]bool // hints in the place of those of the tool, by name
	Tags        []string        // of the item, beside those of the upstream; searches find it by them
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

// Hides reports whether an override hides an item.
func (r *Rules) Hides(kind call.Kind, native string) bool { return r.override(kind, native).Hidden }

// Freshness says for how long a catalog is current.
type Freshness struct {
	At      time.Time     // when it was gathered
	TTL     time.Duration // since At; 0 or less for none
	Private bool          // it is for one principal and must not be shared
}

// Down says why and since when an upstream is down. The reason is shown to clients: it
// contains no secret and no internal address.
type Down struct {
	Since  time.Time
	Reason string
	// Starting says that the first attempt to connect has not ended.
	Starting bool
	// Detail says more than Reason, for operators, or is "". No client gets it.
	Detail string
}

// Part is one upstream in a table. It is immutable.
type Part struct {
	source Source
	naming *namespace.Naming
	index  int // place in the order of the configuration

	publicLeads  [call.Kinds][]string // the beginnings of all public names that items may have
	capabilities capability           // that the upstream declares
	own          bool                 // the items are the gateway's own
}

// Own reports whether the items of the part are the gateway's own. There is no upstream then.
func (p *Part) Own() bool { return p.own }

// Upstream returns the upstream's name, "" for the gateway itself.
func (p *Part) Upstream() string { return p.naming.Upstream() }

// Naming returns the naming for messages of the upstream. It includes the URIs that were
// renamed because they clash.
func (p *Part) Naming() *namespace.Naming { return p.naming }

// Revision returns the protocol revision of the upstream, "" if unknown.
func (p *Part) Revision() wire.Revision { return p.source.Revision }

// Capabilities returns the capabilities of the upstream, nil if unknown.
func (p *Part) Capabilities() wire.Raw { return p.source.Capabilities }

// Rules returns how items and results of the upstream are treated. The caller must not
// change them.
func (p *Part) Rules() *Rules { return &p.source.Rules }

// Down returns why the upstream is down, nil if it is up.
func (p *Part) Down() *Down { return p.source.Down }

// missing returns why items of a kind are missing in lists or may be outdated, nil if they are
// not.
func (p *Part) missing(kind call.Kind) *Down {
	if p.source.Down != nil {
		return p.source.Down
	}
	return p.source.Failed[kind]
}

// unknown returns why the items of a kind are not known, nil if they are known. The items of an
// earlier run are not enough: the upstream may have other items when it has started.
func (p *Part) unknown(kind call.Kind) *Down {
	switch {
	case p.source.Down != nil && (p.source.Down.Starting || p.empty()):
		return p.source.Down
	case p.source.Down == nil && len(p.source.Items[kind]) == 0:
		return p.source.Failed[kind]
	}
	return nil
}

// empty reports whether no items of the upstream are known.
func (p *Part) empty() bool {
	for _, items := range p.source.Items {
		if len(items) > 0 {
			return false
		}
	}
	return true
}

// hasResources reports whether the upstream may have resources.
func (p *Part) hasResources() bool {
	caps := p.source.Capabilities
	return caps == nil || wire.ValueOf(caps).Get("resources").Exists()
}

// publicLeadsOf returns the beginnings of all public names that items of an upstream may have.
func publicLeadsOf(n *namespace.Naming) [call.Kinds][]string {
	names, uris := []string{n.NamePrefix()}, []string{""}
	if n.Prefix() != "" {
		uris = []string{n.Prefix() + "+", "ui://" + n.Upstream(), "http:", "https:"}
	}
	return [call.Kinds][]string{call.Tool: names, call.Prompt: names, call.Resource: uris, call.Template: uris}
}

// leads returns the beginnings of public names that unlisted items of the part may have: of
// all kinds if its catalog is unknown, otherwise of resources, and of tools and prompts whose
// list has failed.
func (p *Part) leads() [call.Kinds][]string { return p.leadsOf(p.empty()) }

// leadsOf returns the leads for a known or an unknown catalog.
func (p *Part) leadsOf(unknown bool) [call.Kinds][]string {
	var leads [call.Kinds][]string
	for _, kind := range []call.Kind{call.Tool, call.Prompt} {
		if unknown || p.unknown(kind) != nil {
			leads[kind] = []string{p.naming.NamePrefix()}
		}
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
