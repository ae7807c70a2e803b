package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// pins know the definitions of tools that were accepted, of upstreams with pin:
// true, as digests in one file of the state folder. The first list of an upstream
// that has tools is accepted as it is. Another process may accept others. Safe for
// concurrent use.
type pins struct {
	file string
	log  *zap.Logger

	mu     sync.Mutex
	kept   pinFile
	as     os.FileInfo // the file that kept is, nil: there is none
	judged map[string]judgedTools
}

// pinFile is what the file holds.
type pinFile struct {
	Upstreams map[string]map[string]string `json:"upstreams"` // by name: digests by tool
}

// judgedTools are the digests of a list, so that they are not computed for every table.
type judgedTools struct {
	tools   []wire.Raw
	digests []string
}

// pinLook is the time between two looks at whether another process accepted something.
const pinLook = 2 * time.Second

// pinned are the members that make the definition of a tool. _meta is not among
// them: it may change with every list.
var pinned = []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"}

// openPins reads what was accepted. A file that cannot be read is an error: to
// begin anew would accept whatever there is now.
func openPins(dir string, log *zap.Logger) (*pins, error) {
	if dir == "" {
		return nil, errors.New("pin: what is accepted is kept in state_dir, and there is none that can be written; set state_dir")
	}
	p := &pins{file: filepath.Join(dir, "pins.json"), log: log, judged: map[string]judgedTools{}}
	if err := p.read(); err != nil {
		return nil, fmt.Errorf("pin: %w; mend the file, or remove it to accept what there is at the next start", err)
	}
	return p, nil
}

// read reads the file, if it is another than before. The caller holds mu.
func (p *pins) read() error {
	info, err := os.Stat(p.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.kept, p.as = pinFile{}, nil
		return nil
	case err != nil:
		return err
	case p.as != nil && os.SameFile(info, p.as) && info.ModTime().Equal(p.as.ModTime()) && info.Size() == p.as.Size():
		return nil
	case info.Size() > maxStateFile:
		return fmt.Errorf("%s is too large", p.file)
	}
	data, err := os.ReadFile(p.file)
	if err == nil {
		err = wire.Check(data, wire.Limits{}, wire.Strict)
	}
	var kept pinFile
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", p.file, err)
	}
	p.kept, p.as = kept, info
	return nil
}

// changed reports whether another process has accepted something.
func (p *pins) changed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.as
	if err := p.read(); err != nil {
		return false // whoever needs it next tells
	}
	return p.as != before
}

// held returns why each tool of a list is not to be published, "" for those that
// may be. fresh says that the list was gathered just now: only such a list is
// accepted as the first.
func (p *pins) held(name string, tools []wire.Raw, fresh bool) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	unread := p.read()
	if unread != nil {
		p.log.Error("what is pinned cannot be read; what was read before holds", zap.Error(unread))
	}
	digests := p.digests(name, tools)
	out := make([]string, len(tools))
	accepted, known := p.kept.Upstreams[name]
	if !known {
		if !fresh || len(tools) == 0 {
			return out
		}
		err, why := unread, "it cannot be pinned: what is pinned cannot be read"
		if err == nil {
			err, why = p.keep(name, tools, digests), "it cannot be pinned: state_dir cannot be written"
		}
		if err != nil {
			p.log.Error("tools cannot be pinned, and are hidden", zap.String("upstream", name), zap.Error(err))
			for i := range out {
				out[i] = why
			}
			return out
		}
		p.log.Info("tools are pinned as they are on first use", zap.String("upstream", name), zap.Int("tools", len(tools)))
		return out
	}
	for i, raw := range tools {
		was, ok := accepted[pinKey(raw, digests[i])]
		switch {
		case !ok:
			out[i] = fmt.Sprintf("it is new since the tools were pinned (%s); gateway pin accepts it", short(digests[i]))
		case was != digests[i]:
			out[i] = fmt.Sprintf("its definition has changed since it was pinned (%s, was %s); gateway pin accepts it", short(digests[i]), short(was))
		}
	}
	return out
}

// PinChange is what accepting the tools of an upstream means, by native names in
// the order of the list.
type PinChange struct {
	Tools         int // that the upstream lists
	New, Changed  []wire.Raw
	Gone          []string // sorted
	FirstAccepted bool     // nothing was accepted before
}

// accept accepts the tools of a list; with dry it only says what that would mean.
func (p *pins) accept(name string, tools []wire.Raw, dry bool) (PinChange, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.read(); err != nil {
		return PinChange{}, err
	}
	digests := p.digests(name, tools)
	accepted, known := p.kept.Upstreams[name]
	change := PinChange{Tools: len(tools), FirstAccepted: !known}
	here := map[string]bool{}
	for i, raw := range tools {
		key := pinKey(raw, digests[i])
		if here[key] {
			continue
		}
		here[key] = true
		switch was, ok := accepted[key]; {
		case !ok:
			change.New = append(change.New, raw)
		case was != digests[i]:
			change.Changed = append(change.Changed, raw)
		}
	}
	for key := range accepted {
		if !here[key] {
			change.Gone = append(change.Gone, key)
		}
	}
	slices.Sort(change.Gone)
	if dry {
		return change, nil
	}
	return change, p.keep(name, tools, digests)
}

// keep writes what is accepted of an upstream. The caller holds mu.
func (p *pins) keep(name string, tools []wire.Raw, digests []string) error {
	next := pinFile{Upstreams: map[string]map[string]string{}}
	for other, of := range p.kept.Upstreams {
		next.Upstreams[other] = of
	}
	own := make(map[string]string, len(tools))
	for i, raw := range tools {
		if key := pinKey(raw, digests[i]); own[key] == "" { // of several with one name the first counts
			own[key] = digests[i]
		}
	}
	next.Upstreams[name] = own
	if err := replaceFile(p.file, next); err != nil {
		return err
	}
	return p.read()
}

// digests returns the digest of each definition. The caller holds mu.
func (p *pins) digests(name string, tools []wire.Raw) []string {
	same := func(a, b wire.Raw) bool { return string(a) == string(b) }
	if last := p.judged[name]; slices.EqualFunc(last.tools, tools, same) {
		return last.digests
	}
	digests := make([]string, len(tools))
	for i, raw := range tools {
		digests[i] = definitionDigest(raw)
	}
	p.judged[name] = judgedTools{tools, digests}
	return digests
}

// definitionDigest is the digest of what makes the definition of a tool. A member
// that is there twice counts twice: nobody knows which one a client reads.
func definitionDigest(tool wire.Raw) string {
	definition := []byte{'{'}
	for m := range wire.ValueOf(tool).Members() {
		if !slices.Contains(pinned, m.Key.Str()) {
			continue
		}
		if len(definition) > 1 {
			definition = append(definition, ',')
		}
		definition = append(append(append(definition, m.Key.Raw()...), ':'), m.Value.Raw()...)
	}
	return string(wire.AppendDigest(nil, append(definition, '}')))
}

// pinKey is what a tool is known by: its name, or without one its digest.
func pinKey(tool wire.Raw, digest string) string {
	if name, ok := wire.ValueOf(tool).Get("name").Text(); ok {
		return name
	}
	return digest
}

func short(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }

// heldTools says which tools of a list are not to be published, nil for none.
func (g *Gateway) heldTools(m *member, tools []wire.Raw, s upstream.Snapshot) []string {
	if m.pins == nil {
		return nil
	}
	return m.pins.held(m.name, tools, s.State == upstream.Ready)
}

// Pin accepts the tools that an upstream lists now; with dry it only says what
// that would mean. The error says why they cannot be accepted. In a visit whose
// configuration has pin: true the first list was accepted before.
func (v *Visit) Pin(name string, dry bool) (PinChange, error) {
	m := v.g.lineup.Load().member(name)
	if m == nil {
		return PinChange{}, errors.New("there is no such upstream")
	}
	s := m.link.snapshot()
	if s.State != upstream.Ready {
		return PinChange{}, errors.New(m.status(s).Reason)
	}
	p, err := openPins(v.g.state.dir, v.g.log)
	if err != nil {
		return PinChange{}, err
	}
	return p.accept(name, s.Catalog.Tools, dry)
}
