package pins

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/wire"
)

// Store keeps accepted definitions, with their digests, in one file of the state folder. It
// accepts the first list of an upstream that has tools as it is. Other processes, such as
// gateway pin, and other stores may write the file too: each write is made to what the file
// says at that moment, so none is lost. The methods may be called concurrently.
type Store struct {
	file string
	log  *zap.Logger

	mu      sync.Mutex
	content content
	info    os.FileInfo // of the file that content was read from, nil if there was none
	foreign bool        // content has what another process or store wrote, and Changed has not said so
	digests map[string]digestedTools
	bare    map[string]bool    // the upstreams whose tools are pinned without default values
	started map[[2]string]bool // upstream and tool whose definition at this start was noted
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
		return nil, fmt.Errorf("pin: %w", err)
	}
	s.foreign = false
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
	if _, known := s.content.Upstreams[upstream]; !known {
		return s.acceptFirst(upstream, tools, digests, fresh, unread)
	}
	if fresh && unread == nil {
		s.noteStarts(upstream, tools, digests)
	}
	return s.reasons(upstream, tools, digests)
}

// reasons is Held for an upstream with accepted tools. The caller holds mu.
func (s *Store) reasons(upstream string, tools []wire.Raw, digests []string) []string {
	accepted, refused := s.content.Upstreams[upstream], s.content.Refused[upstream]
	reasons := make([]string, len(tools))
	for i, raw := range tools {
		key := keyOf(raw, digests[i])
		before, ok := accepted[key]
		switch {
		case before != digests[i] && refused[key] == digests[i]:
			reasons[i] = fmt.Sprintf("%s (%s); gateway pin%s accepts it after all if you name the tool", refusedReason, short(digests[i]), advice.ConfigFlag())
		case !ok:
			reasons[i] = fmt.Sprintf("it is new since the tools were pinned (%s); gateway pin%s accepts it", short(digests[i]), advice.ConfigFlag())
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
		return fmt.Sprintf("its definition has changed since it was pinned (%s, was %s); gateway pin%s accepts it", short(now), short(before), advice.ConfigFlag())
	}
	what, onlyDefaults := h.difference(tool)
	switch {
	case onlyDefaults:
		return fmt.Sprintf("its definition differs at every start: %s; set pin_defaults: false for the upstream, and gateway pin%s accepts it for good", what, advice.ConfigFlag())
	case what != "":
		return fmt.Sprintf("its definition differs at every start: %s; gateway pin%s accepts it until the next start, so set pin: false or have the server list the same each time", what, advice.ConfigFlag())
	}
	return fmt.Sprintf("its definition differs at every start; gateway pin%s accepts it until the next start, so set pin: false or have the server list the same each time", advice.ConfigFlag())
}

// noteStarts notes the definitions at this start. The caller holds mu.
func (s *Store) noteStarts(upstream string, tools []wire.Raw, digests []string) {
	var due []int // positions of tools of which there is something to note
	for i, raw := range tools {
		key := keyOf(raw, digests[i])
		at := [2]string{upstream, key}
		before, known := s.content.Upstreams[upstream][key]
		if !known || s.started[at] {
			continue
		}
		s.started[at] = true
		h := s.content.historyOf(upstream, key)
		same, whole := before == digests[i], s.acceptedWhole(upstream, before, raw)
		steady := same && len(h.Starts) == 0 || whole
		if !steady || (same || whole) && h.Definition == "" {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return
	}
	if err := s.writeStarts(upstream, tools, digests, due); err != nil {
		s.log.Debug("how often pinned tools differ cannot be noted", zap.Error(err))
	}
}

// writeStarts notes the definitions of some tools of a list in the file. The caller holds mu.
func (s *Store) writeStarts(upstream string, tools []wire.Raw, digests []string, due []int) error {
	unlock, err := s.lockFile()
	if err != nil {
		return err
	}
	defer unlock()
	next, changed := s.content.copy(), false
	for _, i := range due {
		key := keyOf(tools[i], digests[i])
		before, known := next.Upstreams[upstream][key]
		if !known {
			continue
		}
		h, whole := next.historyFor(upstream, key), s.acceptedWhole(upstream, before, tools[i])
		if (before == digests[i] || whole) && h.Definition == "" { // an older version has accepted it
			changed = next.keepText(h, tools[i]) || changed
		}
		if !whole {
			changed = h.noteStart(before, digests[i]) || changed
		}
	}
	if !changed {
		return nil
	}
	return s.save(next)
}

// acceptFirst accepts the first list of an upstream, and returns the same as Held. unread
// is the error of reading the file. The caller holds mu.
func (s *Store) acceptFirst(upstream string, tools []wire.Raw, digests []string, fresh bool, unread error) []string {
	reasons := make([]string, len(tools))
	if !fresh || len(tools) == 0 {
		return reasons
	}
	refuse := func(reason string, err error) []string {
		s.log.Error("tools cannot be pinned, and are hidden", zap.String("upstream", upstream), zap.Error(err))
		for i := range reasons {
			reasons[i] = reason
		}
		return reasons
	}
	if unread != nil {
		return refuse("it cannot be pinned: the file of pinned tools cannot be read", unread)
	}
	unlock, err := s.lockFile()
	if err == nil {
		defer unlock()
		if _, known := s.content.Upstreams[upstream]; known { // another process was faster
			return s.reasons(upstream, tools, digests)
		}
		err = s.accept(upstream, tools, digests, firsts(tools, digests), true)
	}
	if err != nil {
		return refuse("it cannot be pinned: state_dir cannot be written", err)
	}
	s.log.Info("tools are pinned as they are on first use", zap.String("upstream", upstream), zap.Int("tools", len(tools)))
	return reasons
}

// Change is the change of the pins when the tools of an upstream are accepted. Tools are in the
// order of the list.
type Change struct {
	Tools         int // that the upstream lists, or those with the given names
	New, Changed  []wire.Raw
	Refused       []wire.Raw // a person has refused these definitions, and they stay refused
	Gone          []string   // native names, sorted
	FirstAccepted bool       // nothing was accepted before
}

// Accept accepts the tools of a list, or only those with the names in only if there are any. A definition that a
// person has refused is accepted only by name: a person who accepts all may not know of the refusal. With
// dryRun it only returns what that would change. A name that is not listed is an *UnknownToolError.
func (s *Store) Accept(upstream string, tools []wire.Raw, only []string, dryRun bool) (Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dryRun {
		if err := s.read(); err != nil {
			return Change{}, err
		}
	} else {
		unlock, err := s.lockFile()
		if err != nil {
			return Change{}, err
		}
		defer unlock()
	}
	digests := s.digestsOf(upstream, tools)
	accepted, known := s.content.Upstreams[upstream]
	refused := s.content.Refused[upstream]
	change := Change{Tools: len(tools), FirstAccepted: !known}
	listed := map[string]bool{}
	var chosen []int
	for _, i := range firsts(tools, digests) {
		raw, key := tools[i], keyOf(tools[i], digests[i])
		listed[key] = true
		if len(only) > 0 && !slices.Contains(only, key) {
			continue
		}
		before, ok := accepted[key]
		isRefused := before != digests[i] && refused[key] == digests[i]
		if !isRefused || len(only) > 0 {
			chosen = append(chosen, i)
		}
		switch {
		case isRefused && (dryRun || len(only) == 0):
			change.Refused = append(change.Refused, raw)
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

// accept writes the chosen tools of a list as accepted. forget removes what is known of tools that are not in
// the list. The caller holds mu and has locked the file.
func (s *Store) accept(upstream string, tools []wire.Raw, digests []string, chosen []int, forget bool) error {
	next := s.content.copy()
	accepted := next.Upstreams[upstream]
	if accepted == nil {
		accepted = make(map[string]string, len(chosen))
		next.Upstreams[upstream] = accepted
	}
	for _, i := range chosen {
		key := keyOf(tools[i], digests[i])
		h := next.historyFor(upstream, key)
		if before := accepted[key]; before != "" {
			h.noteStart(before, digests[i])
		}
		h.Members = membersOf(tools[i])
		next.keepText(h, tools[i])
		accepted[key] = digests[i]
		delete(next.Refused[upstream], key)
	}
	if forget {
		listed := make(map[string]bool, len(tools))
		for i, raw := range tools {
			listed[keyOf(raw, digests[i])] = true
		}
		maps.DeleteFunc(accepted, func(key, _ string) bool { return !listed[key] })
		maps.DeleteFunc(next.History[upstream], func(key string, _ *history) bool { return !listed[key] })
		maps.DeleteFunc(next.Refused[upstream], func(key, _ string) bool { return !listed[key] })
	}
	if len(next.Refused[upstream]) == 0 {
		delete(next.Refused, upstream)
	}
	return s.save(next)
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
