package pins

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"mcpgateway/internal/statedir"
	"mcpgateway/internal/wire"
)

// Store keeps accepted definitions, with their digests, in one file of the state folder. It
// accepts the first list of an upstream that has tools as it is. Another process, such as
// gateway pin, may write the file too. The methods may be called by many goroutines at
// once.
type Store struct {
	file string
	log  *zap.Logger

	mu      sync.Mutex
	content content
	info    os.FileInfo // of the file that content was read from, nil if there was none
	digests map[string]digestedTools
	bare    map[string]bool    // the upstreams whose tools are pinned without default values
	started map[[2]string]bool // upstream and tool whose definition at this start was noted
}

// content is what the file contains.
type content struct {
	Upstreams map[string]map[string]string `json:"upstreams"` // by name: digests by tool
	// History says more about the tools, by upstream and tool. Files of older versions lack it.
	History map[string]map[string]*history `json:"history,omitempty"`
	// Refused are the digests of definitions that a person has refused, by upstream and tool.
	Refused map[string]map[string]string `json:"refused,omitempty"`

	texts int // bytes of the definitions in History, counted by copy
}

// historyOf returns what is known of a tool, which may be empty.
func (c *content) historyOf(upstream, tool string) *history {
	if h := c.History[upstream][tool]; h != nil {
		return h
	}
	return &history{}
}

// digestedTools caches the digests of a list, so that not every table computes them.
type digestedTools struct {
	tools   []wire.Raw
	digests []string
}

// pinnedMembers are the members of a tool that make up its definition. _meta is not one
// of them: it may change with every list.
var pinnedMembers = []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"}

// Open reads the file of accepted definitions in the state folder dir. A file that cannot
// be read is an error: an empty store would accept whatever the upstreams list now.
func Open(dir string, log *zap.Logger) (*Store, error) {
	if dir == "" {
		return nil, errors.New("pin: accepted tools are kept in state_dir, and there is no such folder that can be written; set state_dir")
	}
	s := &Store{file: filepath.Join(dir, "pins.json"), log: log, digests: map[string]digestedTools{}, bare: map[string]bool{}, started: map[[2]string]bool{}}
	if err := s.read(); err != nil {
		return nil, fmt.Errorf("pin: %w; repair the file, or remove it to accept the tools that are listed at the next start", err)
	}
	return s, nil
}

// IgnoreDefaults has the tools of an upstream pinned without the default values of their
// schemas, which some servers make anew at each start. A definition that was accepted with
// them stays accepted.
func (s *Store) IgnoreDefaults(upstream string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bare[upstream] = true
	delete(s.digests, upstream)
}

// read reads the file if it has changed. The caller holds mu.
func (s *Store) read() error {
	info, err := os.Stat(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.content, s.info = content{}, nil
		return nil
	case err != nil:
		return err
	case s.info != nil && os.SameFile(info, s.info) && info.ModTime().Equal(s.info.ModTime()) && info.Size() == s.info.Size():
		return nil
	}
	var c content
	if err := statedir.ReadFile(s.file, &c); err != nil {
		return fmt.Errorf("%s cannot be read: %w", s.file, err)
	}
	s.content, s.info = c, info
	return nil
}

// Changed reports whether another process has written the file since it was last read.
func (s *Store) Changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.info
	if err := s.read(); err != nil {
		return false // Held reports it
	}
	return s.info != before
}

// Held returns for each tool of a list why it must not be published, "" if it may be.
// fresh says that the list was gathered as a whole, and the upstream still offers it: only
// such a list is accepted as the first one.
func (s *Store) Held(upstream string, tools []wire.Raw, fresh bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	unread := s.read()
	if unread != nil {
		s.log.Error("pinned tools cannot be read; those that were read before stay in force", zap.Error(unread))
	}
	digests := s.digestsOf(upstream, tools)
	accepted, known := s.content.Upstreams[upstream]
	if !known {
		return s.acceptFirst(upstream, tools, digests, fresh, unread)
	}
	if fresh && unread == nil {
		s.noteStarts(upstream, tools, digests)
	}
	reasons := make([]string, len(tools))
	for i, raw := range tools {
		before, ok := accepted[keyOf(raw, digests[i])]
		switch {
		case before != digests[i] && s.content.Refused[upstream][keyOf(raw, digests[i])] == digests[i]:
			reasons[i] = fmt.Sprintf("%s (%s); gateway pin accepts it after all", refusedReason, short(digests[i]))
		case !ok:
			reasons[i] = fmt.Sprintf("it is new since the tools were pinned (%s); gateway pin accepts it", short(digests[i]))
		case before != digests[i] && !s.acceptedWhole(upstream, before, raw):
			reasons[i] = s.changed(upstream, raw, digests[i], before)
		}
	}
	return reasons
}

// acceptedWhole reports whether a tool that is pinned without default values was accepted
// with them, and is the same. The caller holds mu.
func (s *Store) acceptedWhole(upstream, before string, tool wire.Raw) bool {
	return s.bare[upstream] && before == digestOf(tool, false)
}

// changed says why a tool whose definition has changed is held. The caller holds mu.
func (s *Store) changed(upstream string, tool wire.Raw, now, before string) string {
	h := s.content.historyOf(upstream, keyOf(tool, now))
	if !h.alwaysDiffers() {
		return fmt.Sprintf("its definition has changed since it was pinned (%s, was %s); gateway pin accepts it", short(now), short(before))
	}
	what, onlyDefaults := h.difference(tool)
	switch {
	case onlyDefaults:
		return fmt.Sprintf("its definition differs at every start: %s; set pin_defaults: false for the upstream, and gateway pin accepts it for good", what)
	case what != "":
		return fmt.Sprintf("its definition differs at every start: %s; gateway pin accepts it until the next start, so set pin: false or have the server list the same each time", what)
	}
	return "its definition differs at every start; gateway pin accepts it until the next start, so set pin: false or have the server list the same each time"
}

// noteStarts notes the definitions at this start. The caller holds mu.
func (s *Store) noteStarts(upstream string, tools []wire.Raw, digests []string) {
	var next content // a copy, once something is to be noted
	changed := false
	for i, raw := range tools {
		key := keyOf(raw, digests[i])
		at := [2]string{upstream, key}
		before, known := s.content.Upstreams[upstream][key]
		if !known || s.started[at] {
			continue
		}
		s.started[at] = true
		h, whole := s.content.historyOf(upstream, key), s.acceptedWhole(upstream, before, raw)
		steady := before == digests[i] && len(h.Starts) == 0 || whole
		lacksText := (before == digests[i] || whole) && h.Definition == ""
		if steady && !lacksText {
			continue
		}
		if next.Upstreams == nil {
			next = s.content.copy()
		}
		if lacksText { // an older version has accepted it
			changed = next.keepText(next.historyFor(upstream, key), raw) || changed
		}
		if !steady {
			changed = next.historyFor(upstream, key).noteStart(before, digests[i]) || changed
		}
	}
	if !changed {
		return
	}
	if err := s.save(next); err != nil {
		s.log.Debug("how often pinned tools differ cannot be noted", zap.Error(err))
	}
}

// acceptFirst accepts the first list of an upstream, and returns the same as Held. unread
// is the error of reading the file. The caller holds mu.
func (s *Store) acceptFirst(upstream string, tools []wire.Raw, digests []string, fresh bool, unread error) []string {
	reasons := make([]string, len(tools))
	if !fresh || len(tools) == 0 {
		return reasons
	}
	err, reason := unread, "it cannot be pinned: the file of pinned tools cannot be read"
	if err == nil {
		err, reason = s.accept(upstream, tools, digests, firsts(tools, digests), true), "it cannot be pinned: state_dir cannot be written"
	}
	if err != nil {
		s.log.Error("tools cannot be pinned, and are hidden", zap.String("upstream", upstream), zap.Error(err))
		for i := range reasons {
			reasons[i] = reason
		}
		return reasons
	}
	s.log.Info("tools are pinned as they are on first use", zap.String("upstream", upstream), zap.Int("tools", len(tools)))
	return reasons
}

// Change is what accepting the tools of an upstream changes. Tools are in the order of
// the list.
type Change struct {
	Tools         int // that the upstream lists, or those with the given names
	New, Changed  []wire.Raw
	Gone          []string // native names, sorted
	FirstAccepted bool     // nothing was accepted before
}

// Accept accepts the tools of a list, or only those with the names in only if there are any. With
// dryRun it only returns what that would change. A name that is not listed is an *UnknownToolError.
func (s *Store) Accept(upstream string, tools []wire.Raw, only []string, dryRun bool) (Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		return Change{}, err
	}
	digests := s.digestsOf(upstream, tools)
	accepted, known := s.content.Upstreams[upstream]
	change := Change{Tools: len(tools), FirstAccepted: !known}
	listed := map[string]bool{}
	var chosen []int
	for _, i := range firsts(tools, digests) {
		raw, key := tools[i], keyOf(tools[i], digests[i])
		listed[key] = true
		if len(only) > 0 && !slices.Contains(only, key) {
			continue
		}
		chosen = append(chosen, i)
		switch before, ok := accepted[key]; {
		case !ok:
			change.New = append(change.New, raw)
		case before != digests[i]:
			change.Changed = append(change.Changed, raw)
		}
	}
	if len(only) > 0 {
		change.Tools = len(chosen)
	}
	for _, name := range only {
		if !listed[name] {
			return Change{}, &UnknownToolError{name, slices.Sorted(maps.Keys(listed))}
		}
	}
	for key := range accepted {
		if len(only) == 0 && !listed[key] {
			change.Gone = append(change.Gone, key)
		}
	}
	slices.Sort(change.Gone)
	if dryRun {
		return change, nil
	}
	return change, s.accept(upstream, tools, digests, chosen, len(only) == 0)
}

// UnknownToolError says that an upstream lists no tool with a name.
type UnknownToolError struct {
	Name   string
	Listed []string // names, sorted
}

func (e *UnknownToolError) Error() string {
	return "the upstream lists no tool " + strconv.Quote(e.Name)
}

// accept writes the chosen tools of a list as accepted. all says that no other tool of the upstream
// stays accepted. The caller holds mu.
func (s *Store) accept(upstream string, tools []wire.Raw, digests []string, chosen []int, all bool) error {
	next := s.content.copy()
	accepted := next.Upstreams[upstream]
	if accepted == nil {
		accepted = make(map[string]string, len(chosen))
		next.Upstreams[upstream] = accepted
	}
	keep := make(map[string]bool, len(chosen))
	for _, i := range chosen {
		key := keyOf(tools[i], digests[i])
		h := next.historyFor(upstream, key)
		if before := accepted[key]; before != "" {
			h.noteStart(before, digests[i])
		}
		h.Members = membersOf(tools[i])
		next.keepText(h, tools[i])
		accepted[key], keep[key] = digests[i], true
		delete(next.Refused[upstream], key)
	}
	if all {
		gone := func(key string) bool { return !keep[key] }
		maps.DeleteFunc(accepted, func(key, _ string) bool { return gone(key) })
		maps.DeleteFunc(next.History[upstream], func(key string, _ *history) bool { return gone(key) })
		delete(next.Refused, upstream)
	}
	return s.save(next)
}

// save writes the file. The caller holds mu.
func (s *Store) save(next content) error {
	if err := statedir.WriteFile(s.file, next); err != nil {
		return err
	}
	return s.read()
}

// firsts returns the positions of the tools of a list. Of tools with the same name the first counts.
func firsts(tools []wire.Raw, digests []string) []int {
	seen := make(map[string]bool, len(tools))
	var out []int
	for i, raw := range tools {
		if key := keyOf(raw, digests[i]); !seen[key] {
			seen[key] = true
			out = append(out, i)
		}
	}
	return out
}

// copy returns a copy that may be changed.
func (c *content) copy() content {
	next := content{Upstreams: map[string]map[string]string{}, History: map[string]map[string]*history{}, Refused: map[string]map[string]string{}}
	for name, accepted := range c.Upstreams {
		next.Upstreams[name] = maps.Clone(accepted)
	}
	for name, refused := range c.Refused {
		next.Refused[name] = maps.Clone(refused)
	}
	for name, tools := range c.History {
		next.History[name] = make(map[string]*history, len(tools))
		for tool, h := range tools {
			next.History[name][tool] = &history{h.Members, slices.Clone(h.Starts), h.Definition}
			next.texts += len(h.Definition)
		}
	}
	return next
}

// historyFor returns the history of a tool, to be changed.
func (c *content) historyFor(upstream, tool string) *history {
	if c.History[upstream] == nil {
		c.History[upstream] = make(map[string]*history)
	}
	if c.History[upstream][tool] == nil {
		c.History[upstream][tool] = &history{}
	}
	return c.History[upstream][tool]
}

// digestsOf returns the digest of each definition. The caller holds mu.
func (s *Store) digestsOf(upstream string, tools []wire.Raw) []string {
	same := func(a, b wire.Raw) bool { return string(a) == string(b) }
	if last := s.digests[upstream]; slices.EqualFunc(last.tools, tools, same) {
		return last.digests
	}
	digests := make([]string, len(tools))
	for i, raw := range tools {
		digests[i] = digestOf(raw, s.bare[upstream])
	}
	s.digests[upstream] = digestedTools{tools, digests}
	return digests
}

// digestOf is the digest of a tool's definition. bare leaves out the default values of schemas.
func digestOf(tool wire.Raw, bare bool) string {
	return string(wire.AppendDigest(nil, definitionOf(tool, bare)))
}

// definitionOf returns the members of a tool that make up its definition. A member that occurs twice
// is there twice: clients differ in which one they read.
func definitionOf(tool wire.Raw, bare bool) wire.Raw {
	definition := wire.Raw{'{'}
	for m := range wire.ValueOf(tool).Members() {
		name := m.Key.Str()
		if !slices.Contains(pinnedMembers, name) {
			continue
		}
		value := m.Value.Raw()
		if bare && slices.Contains(schemas, name) {
			value = withoutDefaults(m.Value)
		}
		if len(definition) > 1 {
			definition = append(definition, ',')
		}
		definition = append(append(append(definition, m.Key.Raw()...), ':'), value...)
	}
	return append(definition, '}')
}

// keyOf identifies a tool by its name, or by its digest if it has no name.
func keyOf(tool wire.Raw, digest string) string {
	if name, ok := wire.ValueOf(tool).Get("name").Text(); ok {
		return name
	}
	return digest
}

func short(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }
