package matrix

import (
	"fmt"
	"strings"

	"mcpgateway/test/internal/client"
)

// step is one request of a feature and its expected outcome.
type step struct {
	client.Step
	has      []string                   // parts of the result's JSON
	fault    int                        // code of an expected JSON-RPC error
	gaveUp   bool                       // expects the client's own timeout error
	not      *client.Want               // an event that must not occur
	progress []string                   // parts of the progress updates, in order
	also     func(client.Outcome) error // a further check of the outcome
}

// wrong returns the complaint about an outcome, "" if it is as expected.
func (s step) wrong(o client.Outcome) string {
	switch {
	case s.gaveUp:
		if o.Error == nil {
			return fmt.Sprintf("%s: the result %s, where the client gave up", s.about(), o.Result)
		}
		return ""
	case s.fault != 0 && (o.Error == nil || o.Error.Code != s.fault):
		return fmt.Sprintf("%s: result %s, error %+v; want error %d", s.about(), o.Result, o.Error, s.fault)
	case s.fault == 0 && o.Error != nil:
		return fmt.Sprintf("%s: error %d: %s %s", s.about(), o.Error.Code, o.Error.Message, o.Error.Data)
	}
	for _, part := range s.has {
		if !strings.Contains(string(o.Result), part) {
			return fmt.Sprintf("%s: no %s in %s", s.about(), part, o.Result)
		}
	}
	for _, want := range s.Await {
		if !came(o, want) {
			return fmt.Sprintf("%s: %s was not told %s; events %s", s.about(), want.Method, want.Has, list(o.Events))
		}
	}
	if s.not != nil && came(o, *s.not) {
		return fmt.Sprintf("%s: unexpected %s with %s; events %s", s.about(), s.not.Method, s.not.Has, list(o.Events))
	}
	if len(o.Progress) != len(s.progress) {
		return fmt.Sprintf("%s: progress %s, want %d updates", s.about(), o.Progress, len(s.progress))
	}
	for i, part := range s.progress {
		if !strings.Contains(string(o.Progress[i]), part) {
			return fmt.Sprintf("%s: no %s in progress %s", s.about(), part, o.Progress[i])
		}
	}
	if s.also != nil {
		if err := s.also(o); err != nil {
			return fmt.Sprintf("%s: %v", s.about(), err)
		}
	}
	return ""
}

func (s step) about() string {
	for _, member := range []string{"name", "uri", "ref"} {
		if value, ok := s.Params[member]; ok {
			return fmt.Sprintf("%s %v", s.Method, value)
		}
	}
	return s.Method
}

func came(o client.Outcome, want client.Want) bool {
	for _, event := range o.Events {
		if event.Is(want) {
			return true
		}
	}
	return false
}

func list(events []client.Event) string {
	var all []string
	for _, event := range events {
		all = append(all, fmt.Sprintf("%s %.300s", event.Method, event.Params))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
