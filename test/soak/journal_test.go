package soak

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// The events of a journal. A fault is noted by its name.
const (
	eventBegun = "begun" // a call was received, with its token
	eventStart = "start" // a process or a session has started
	eventStop  = "stop"  // a session was ended
)

const journalFile = "journal"

// continueJournal reads the journal of the processes before, and opens it for this one.
func (s *server) continueJournal(dir string) {
	err := readJournal(dir, func(event, token string) {
		if event == eventBegun {
			s.begun[token] = true
		}
	})
	if err == nil {
		s.journal, err = os.OpenFile(filepath.Join(dir, journalFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	}
	if err != nil {
		s.violation("the journal: %v", err)
	}
}

// note notes an event, which a server on stdio remembers after its end.
func (s *server) note(event, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[event]++
	if s.journal == nil {
		return
	}
	if _, err := fmt.Fprintf(s.journal, "%s %s\n", event, token); err != nil {
		s.violation("the journal: %v", err)
	}
}

// begin notes that the server received a call. No call may be received twice.
func (s *server) begin(token string) {
	s.mu.Lock()
	again := s.begun[token]
	s.begun[token] = true
	s.mu.Unlock()
	if again {
		s.violation("call %s was received twice", token)
	}
	s.note(eventBegun, token)
}

// readJournal calls each with every event in the journal.
func readJournal(dir string, each func(event, token string)) error {
	file, err := os.Open(filepath.Join(dir, journalFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewScanner(file)
	for in.Scan() {
		event, token, _ := strings.Cut(in.Text(), " ")
		each(event, token)
	}
	return in.Err()
}

// events returns the numbers of events at the server.
func (u *upstream) events() (map[string]int, error) {
	if u.http != nil {
		u.http.server.mu.Lock()
		defer u.http.server.mu.Unlock()
		return maps.Clone(u.http.events), nil
	}
	out := make(map[string]int)
	return out, readJournal(u.dir, func(event, _ string) { out[event]++ })
}
