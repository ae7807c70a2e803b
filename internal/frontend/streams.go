package frontend

import "sync"

// streamSet is the set of streams that belong to no session. The zero set is
// ready for use.
type streamSet struct {
	mu  sync.Mutex
	set map[*stream]changes // with the changes that each wants to hear of
}

// add takes a stream in unless there are max already.
func (s *streamSet) add(st *stream, wants changes, max int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.set) >= max {
		return false
	}
	if s.set == nil {
		s.set = make(map[*stream]changes)
	}
	s.set[st] = wants
	return true
}

func (s *streamSet) remove(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, st)
}

func (s *streamSet) listChanged(c changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st, wants := range s.set {
		if c&wants != 0 {
			st.listChanged(c & wants)
		}
	}
}

func (s *streamSet) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.set {
		st.end()
	}
}
