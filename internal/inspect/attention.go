package inspect

import (
	"fmt"
	"strings"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/upstream/connector"
)

// Attention is something that a person should look at.
type Attention struct {
	// Kind is the subject of the entry: audit, failing (a part of the gateway, see Status), reload, restart, upstream, grant, held, fault or clash.
	Kind     string `json:"kind"`
	Severity string `json:"severity"`           // error or warning
	Upstream string `json:"upstream,omitempty"` // if it is about one
	Message  string `json:"message"`            // a sentence; it may quote an upstream
}

// Attention returns the problems that need a person, errors first. s is the status to which they belong.
func (i *Inspector) Attention(s *Status) []Attention {
	var errs, warnings []Attention
	if s.AuditError != "" {
		errs = append(errs, Attention{"audit", SeverityError, "", "The audit cannot be written, and calls are refused: " + s.AuditError})
	}
	for _, text := range s.Failing {
		errs = append(errs, Attention{"failing", SeverityError, "", strings.ToUpper(text[:1]) + text[1:]})
	}
	if r := s.Reload; r != nil && r.Status == ReloadRefused {
		message := "The last reload was refused; the configuration before it is in force."
		if len(r.Errors) > 0 {
			message += " " + r.Errors[0].String()
			if more := len(r.Errors) - 1; more > 0 {
				message += fmt.Sprintf(" (and %d more)", more)
			}
		}
		errs = append(errs, Attention{"reload", SeverityError, "", message})
	}
	if r := s.Change; r != nil && len(r.NeedsRestart) > 0 {
		warnings = append(warnings, Attention{"restart", SeverityWarning, "", "Changes of these keys take effect after a restart: " + strings.Join(r.NeedsRestart, ", ") + "."})
	}
	if r := s.Reload; r != nil {
		for _, k := range r.Kept {
			message := fmt.Sprintf("A reload found that %s, so the upstream keeps %s as before; its other keys apply. Correct this before the next start. %s", k.reason(), k.kept(), k.Errors[0])
			errs = append(errs, Attention{"reload", SeverityError, k.Upstream, message})
		}
	}
	for _, u := range s.Upstreams {
		switch about := (Attention{"upstream", SeverityError, u.Name, u.Reason}); {
		case u.GrantMissing:
			about.Kind, about.Severity, about.Message = "grant", SeverityWarning, "The gateway has no grant of its own for it. Run: gateway login "+u.Name+advice.ConfigFlag()
			warnings = append(warnings, about)
		case u.State == connector.Down.String():
			errs = append(errs, about)
		case u.State == connector.Degraded.String():
			about.Severity = SeverityWarning
			warnings = append(warnings, about)
		}
		if u.BreakerState == BreakerOpen {
			errs = append(errs, Attention{"upstream", SeverityError, u.Name, "A circuit breaker is open: calls in its session fail at once. Its last failed call says why."})
		}
		if u.Skipped != nil {
			warnings = append(warnings, Attention{"upstream", SeverityWarning, u.Name, u.Skipped.String()})
		}
	}
	warnings = append(warnings, i.itemsForAttention()...)
	return append(errs, warnings...)
}

// itemsForAttention counts the problems of items that hide or rename something, by upstream.
func (i *Inspector) itemsForAttention() (all []Attention) {
	table := i.gateway.Current("")
	if table == nil {
		return nil
	}
	type counts struct{ faults, clashes int }
	found := make(map[string]*counts)
	for _, f := range table.Findings() {
		c := found[f.Upstream]
		if c == nil {
			c = new(counts)
			found[f.Upstream] = c
		}
		switch f.Issue {
		case catalog.Quarantined, catalog.Duplicate, catalog.Nonconforming:
			c.faults++
		case catalog.Clash:
			c.clashes++
		}
	}
	add := func(kind, upstream string, n int, one, more string) {
		if n == 1 {
			all = append(all, Attention{kind, SeverityWarning, upstream, "One " + one})
		} else if n > 1 {
			all = append(all, Attention{kind, SeverityWarning, upstream, fmt.Sprintf("%d %s", n, more)})
		}
	}
	for _, u := range i.Upstreams() {
		add("held", u.Name, u.HeldTools, "tool is hidden because its definition is not the accepted one.", "tools are hidden because their definitions are not the accepted ones.")
		c := found[u.Name]
		if c == nil {
			continue
		}
		add("clash", u.Name, c.clashes, "item has a public name that another item has too.", "items have public names that other items have too.")
		add("fault", u.Name, c.faults, "violation of the specification in its lists.", "violations of the specification in its lists.")
	}
	return all
}

// String returns the error as one line, with its place.
func (e ReloadError) String() string {
	place := e.File
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, e.Line)
	}
	for _, part := range []string{e.Key, place} {
		if part != "" {
			e.Message = part + ": " + e.Message
		}
	}
	return e.Message
}
