package config

import (
	"cmp"
	"time"
)

// Results bound the storage of long results of tools.
type Results struct {
	TTL          time.Duration `yaml:"ttl" default:"1h" min:"1s" doc:"how long a result that max_result of a profile has shortened can be read"`
	Memory       Size          `yaml:"memory" default:"256MiB" min:"1MiB" doc:"memory for the kept results of all principals; the oldest go first"`
	PerPrincipal Size          `yaml:"per_principal" default:"64MiB" min:"1MiB" doc:"memory for the kept results of one principal in all profiles; a result that is larger is sent whole"`
}

// check compares the bounds.
func (r *Results) check(m *mapping) {
	if r.PerPrincipal > r.Memory {
		m.errorf("per_principal", "must be at most memory, which is %v", r.Memory)
	}
}

// StructuredContent says whether the structuredContent of long results is shortened.
type StructuredContent string

// The values of structured_content.
const (
	StructuredWhole StructuredContent = "whole"
	StructuredCut   StructuredContent = "cut"
)

// Images are images in results of tools.
type Images struct {
	Max int `yaml:"max" default:"0" min:"0" max:"8192" doc:"longest side of an image in a result of a tool, in pixels; a larger PNG, JPEG, GIF or WebP is scaled; 0 means no limit"`
}

// The smallest bounds that leave something to see.
const (
	minMaxResult = 4 << 10
	minImageSide = 16
)

// checkResults checks the bounds on results of tools.
func (p *Profile) checkResults(m *mapping) {
	if p.MaxResult != 0 && p.MaxResult < minMaxResult {
		m.errorf("max_result", "must be at least %v, to have room for a beginning, an outline and how to read on; or 0 for no limit", Size(minMaxResult))
	}
	if p.MaxResult == 0 && m.has("structured_content") {
		m.warnf("structured_content", "has no effect without max_result")
	}
	if p.Images.Max != 0 && p.Images.Max < minImageSide {
		m.errorf("images", "max must be at least %d, or 0 for no limit", minImageSide)
	}
}

// resultPrefix is the prefix with which public URIs would look like those of kept results,
// gateway+result://….
const resultPrefix = "gateway"

// checkResultPrefix refuses an upstream whose URIs could look like those of kept results.
func (doc *document) checkResultPrefix(p *Profile, m *mapping) {
	for i := range doc.Upstreams {
		if u := &doc.Upstreams[i]; p.MaxResult > 0 && cmp.Or(u.EffectivePrefix(), u.Name) == resultPrefix {
			m.errorf("max_result", "the upstream %s has the prefix %s, with which its URIs could look like those of kept results, gateway+result://…; give it another prefix", u.Name, resultPrefix)
		}
	}
}
