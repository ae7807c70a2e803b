package pins

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"mcpgateway/internal/atomicfile"
)

// Processes that write the file at the same instant lose nothing: a verb that accepts by name, a console that accepts and refuses,
// and gateways that pin the first lists of other upstreams.
func TestWritesAtTheSameInstant(t *testing.T) {
	const rounds = 20
	dir := t.TempDir()
	writers := []func(s *Store, name, tool string) error{
		func(s *Store, name, tool string) error {
			_, err := s.Accept("files", raws(tool), []string{name}, false)
			return err
		},
		func(s *Store, name, tool string) error {
			return s.Decide("files", raws(tool), name, digestOf(raws(tool)[0], false), true)
		},
		func(s *Store, name, tool string) error {
			return s.Decide("files", raws(tool), name, digestOf(raws(tool)[0], false), false)
		},
		func(s *Store, name, tool string) error {
			if why := s.Held(name, raws(tool), true)[0]; why != "" {
				return fmt.Errorf("%s is held: %s", name, why)
			}
			return nil
		},
	}
	if got := heldNow(storeIn(t, dir), true, `{"name":"first"}`); got != "shown" {
		t.Fatal(got)
	}
	stores := make([]*Store, len(writers))
	for i := range stores {
		stores[i] = storeIn(t, dir)
	}
	toolOf := func(writer, round int) (name, tool string) {
		name = fmt.Sprintf("t%d-%02d", writer, round)
		return name, `{"name":"` + name + `"}`
	}
	for round := range rounds {
		begin := make(chan struct{})
		var all sync.WaitGroup
		for i, write := range writers {
			all.Go(func() {
				name, tool := toolOf(i, round)
				<-begin
				if err := write(stores[i], name, tool); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
	}
	s := storeIn(t, dir)
	for round := range rounds {
		for i, want := range []string{"shown", "shown", refusedReason, ""} {
			name, tool := toolOf(i, round)
			if want == "" {
				if _, known := s.content.Upstreams[name]; !known {
					t.Errorf("the first list of %s is lost", name)
				}
			} else if got := heldNow(s, false, tool); !strings.HasPrefix(got, want) {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
	}
}

// Two gateways that see the first list of an upstream at the same instant pin one list, and judge the other by it.
func TestFirstListsAtTheSameInstant(t *testing.T) {
	dir := t.TempDir()
	one, two := storeIn(t, dir), storeIn(t, dir)
	unlock, err := atomicfile.Lock(t.Context(), one.file)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 2)
	for s, tool := range map[*Store]string{one: pinnedTool, two: changedTool} {
		go func() { got <- heldNow(s, true, tool) }()
	}
	unlock()
	if first, second := <-got, <-got; first+second != "shownchanged" && first+second != "changedshown" {
		t.Errorf("the lists are %s and %s", first, second)
	}
}

// What another process wrote is reported once, even if this one has read it meanwhile to write something itself.
func TestChangedAfterAWrite(t *testing.T) {
	dir := t.TempDir()
	s, other := storeIn(t, dir), storeIn(t, dir)
	heldNow(s, true, pinnedTool)
	if s.Changed() {
		t.Error("what this store wrote is reported")
	}
	if _, err := other.Accept("files", raws(changedTool), nil, false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accept("more", raws(pinnedTool), nil, false); err != nil {
		t.Fatal(err)
	}
	if !s.Changed() || s.Changed() {
		t.Error("what another process wrote is not reported, or twice")
	}
}

// A file that was replaced by one of the same size, inode and time is read before it is changed.
func TestFilesThatLookTheSame(t *testing.T) {
	dir := t.TempDir()
	s, other := storeIn(t, dir), storeIn(t, dir)
	heldNow(s, true, pinnedTool)
	before := s.content
	if _, err := other.Accept("files", raws(pinnedTool, changedTool, `{"name":"more"}`), nil, false); err != nil {
		t.Fatal(err)
	}
	if err := s.read(); err != nil {
		t.Fatal(err)
	}
	s.content = before // as if s had taken the new file for the old one
	if _, err := s.Accept("files", raws(`{"name":"third"}`), []string{"third"}, false); err != nil {
		t.Fatal(err)
	}
	if got := heldNow(storeIn(t, dir), false, `{"name":"more"}`, `{"name":"third"}`); got != "shown shown" {
		t.Error(got)
	}
}
