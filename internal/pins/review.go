package pins

import (
	"errors"
	"strings"

	"mcpgateway/internal/wire"
)

const (
	// maxText bounds the text of an accepted definition that is kept, in bytes. If the text is longer,
	// only the digest is kept.
	maxText = 64 << 10
	// maxTexts bounds all kept texts together.
	maxTexts = 16 << 20
)

// keepText keeps the definition of a tool in its history, and reports whether that has changed it.
func (c *content) keepText(h *history, tool wire.Raw) bool {
	before, text := h.Definition, string(definitionOf(tool, false))
	c.texts -= len(before)
	if len(text) > maxText || c.texts+len(text) > maxTexts {
		text = ""
	}
	c.texts += len(text)
	h.Definition = text
	return text != before
}

// refusedReason begins the reason for which a refused definition is held.
const refusedReason = "a person has refused its definition"

// IsRefusal reports whether a reason of [Store.Held] says that a person has refused the definition.
func IsRefusal(reason string) bool { return strings.HasPrefix(reason, refusedReason) }

// Held is a definition that is not published.
type Held struct {
	Tool    string // the native name, or the digest of a tool without a name
	Digest  string
	Now     wire.Raw // the definition that the upstream lists
	Was     wire.Raw // the accepted definition, nil if there is none or its text is not kept
	New     bool     // no definition of this name was accepted
	Refused bool     // a person has refused this definition
}

// Review returns the definitions of a list that are not published, in its order.
func (s *Store) Review(upstream string, tools []wire.Raw) ([]Held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		return nil, err
	}
	accepted, known := s.content.Upstreams[upstream]
	if !known {
		return nil, nil
	}
	digests := s.digestsOf(upstream, tools)
	var held []Held
	for i, raw := range tools {
		key := keyOf(raw, digests[i])
		before, ok := accepted[key]
		if before == digests[i] || ok && s.acceptedWhole(upstream, before, raw) {
			continue
		}
		held = append(held, Held{
			Tool: key, Digest: digests[i], Now: definitionOf(raw, false), Was: s.textOf(upstream, key), New: !ok,
			Refused: s.content.Refused[upstream][key] == digests[i],
		})
	}
	return held, nil
}

// textOf returns the accepted definition of a tool if its text is kept. The file may have been edited:
// a text that is not what was accepted counts for nothing. The caller holds mu.
func (s *Store) textOf(upstream, key string) wire.Raw {
	text := wire.Raw(s.content.historyOf(upstream, key).Definition)
	if len(text) == 0 || wire.Check(text, wire.Limits{}, wire.Lenient) != nil {
		return nil
	}
	if accepted := s.content.Upstreams[upstream][key]; accepted != digestOf(text, false) && accepted != digestOf(text, s.bare[upstream]) {
		return nil
	}
	return text
}

// ErrNotHeld is the error of a decision about a definition that the upstream does not list, or that is
// accepted already.
var ErrNotHeld = errors.New("the upstream lists another definition by now, or this one is decided; look at it again")

// Decide accepts or refuses a definition of a list. digest is that of the definition at which the
// person looked. A refused definition stays hidden until it changes or is accepted.
func (s *Store) Decide(upstream string, tools []wire.Raw, tool, digest string, accept bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	unlock, err := s.lockFile()
	if err != nil {
		return err
	}
	defer unlock()
	digests := s.digestsOf(upstream, tools)
	for i, raw := range tools {
		if digests[i] != digest || keyOf(raw, digest) != tool || s.content.Upstreams[upstream][tool] == digest {
			continue
		}
		if accept {
			return s.accept(upstream, tools, digests, []int{i}, false)
		}
		next := s.content.copy()
		if next.Refused[upstream] == nil {
			next.Refused[upstream] = map[string]string{}
		}
		next.Refused[upstream][tool] = digest
		return s.save(next)
	}
	return ErrNotHeld
}
