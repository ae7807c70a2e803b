package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/policy"
)

// explained is the output of explain --json. Later versions add members, and never rename or
// remove one.
type explained struct {
	*inspect.ExplanationReport
	Authentication *authentication `json:"authentication,omitempty"`
	// BreakerSince and BreakerState are those of the status of the gateway that runs with the file.
	BreakerSince *time.Time `json:"breaker_open_since,omitempty"`
	BreakerState string     `json:"breaker_state,omitempty"`
	// NeedsRestart are the keys about authentication of which that gateway has the values of its start.
	NeedsRestart []string `json:"needs_restart,omitempty"`
}

func (o *explainOptions) print(out io.Writer, q *inspect.Question, e *inspect.Explanation, about *authentication) error {
	d, r := &e.Decision, e.Report(q)
	breaker := o.running.breakers[r.Upstream]
	if o.json {
		if about != nil && !about.Accepted {
			r.Effect, r.Rule, r.File, r.Line, r.Challenge, r.Limits = policy.Deny.String(), "", "", 0, nil, nil
		}
		return printJSON(out, explained{r, about, breaker.BreakerSince, breaker.BreakerState, o.running.needsRestart})
	}
	s := console.StyleOf(out, lookupEnv)
	if err := about.printBefore(out, s); err != nil {
		return err
	}
	may := s.Good("may use")
	switch {
	case d.Denied():
		may = s.Bad("may not use")
	case d.NeedsConfirmation():
		may = s.Warn("may use, once the user has confirmed it,")
	}
	if d.Challenge {
		may = s.Warn("needs one of the scopes " + strings.Join(d.Scopes, ", ") + " for")
	}
	some := ""
	if d.Allowed() && slices.ContainsFunc(e.Steps, func(s policy.Step) bool { return s.Open }) {
		some = ", with some arguments at least"
	}
	in := ""
	if r.Profile != "" {
		in = " in the profile " + r.Profile
	}
	whose := console.Line(r.Native) + " of " + r.Upstream
	if r.Upstream == "" {
		whose = "of the gateway itself"
	}
	folded(out, "%s %s the %s %s (%s)%s%s.\nIt is decided by %s. %s\n",
		console.Line(r.Subject), may, r.Kind, console.Line(r.Item), whose, in, some, decidedBy(r.Rule, r.File, r.Line), precedence())
	printDown(out, s, r)
	if r.NameThere != "" && (d.Allowed() || d.NeedsConfirmation()) {
		folded(out, "Its name there is %s; a call of %s is refused.\n", s.Bold(console.Line(r.NameThere)), console.Line(r.Item))
	}
	printArguments(out, s, r)
	if breaker.BreakerSince != nil {
		folded(out, "%s: %s in the running gateway: %s.\n", s.Warn("warning"), r.Upstream, breakerText(breaker, time.Now()))
	}
	fmt.Fprintln(out)
	if err := printSteps(out, s, r); err != nil || len(r.Limits) == 0 {
		return err
	}
	fmt.Fprint(out, "\nThese limits count the call:\n\n")
	return printLimits(out, s, r)
}

// printDown says which data the answer uses while the upstream is down.
func printDown(out io.Writer, s console.Style, r *inspect.ExplanationReport) {
	switch {
	case r.Down == "":
	case r.Unlisted:
		folded(out, "%s: %s is %s\nNothing is known of its lists: the answer is for the name alone. Rules that read\ndescriptions may decide otherwise, and there may be no such item.\n",
			s.Warn("warning"), r.Upstream, console.Line(r.Down))
	default:
		folded(out, "%s: %s is %s\nThe answer is for the item as it was listed last.\n", s.Warn("warning"), r.Upstream, console.Line(r.Down))
	}
}

// printArguments says what the gateway makes of arguments that it checks.
func printArguments(out io.Writer, s console.Style, r *inspect.ExplanationReport) {
	switch inspect.ArgumentsCheck(r.Arguments) {
	case inspect.ArgumentsValid:
		folded(out, "The arguments match the input schema (validate_input).\n")
	case inspect.ArgumentsInvalid:
		folded(out, "%s: the gateway does not make this call, because the arguments do not match the input schema (validate_input):\n", s.Bad("error"))
		for _, text := range r.ArgumentErrors {
			folded(out, "- %s\n", console.Line(text))
		}
	case inspect.ArgumentsUnchecked:
		folded(out, "%s: the gateway checks arguments (validate_input); here they are not checked, because the input schema is not known.\n", s.Warn("warning"))
	}
}

func printSteps(out io.Writer, s console.Style, r *inspect.ExplanationReport) error {
	var rows [][]string
	for _, step := range r.Steps {
		matches, why := s.Dim("no"), step.Reason
		switch {
		case step.Matches && (step.Rule == policy.RuleProfileAllow || step.Rule == policy.RuleUpstreamAllow):
			matches = "not in it" // the list refuses what it does not cover
		case step.Matches:
			matches = "yes"
		case step.Rule == policy.RuleDefault:
			matches, why = s.Dim("-"), "not needed: a rule above decides"
		}
		where := "-"
		if step.File != "" {
			where = fmt.Sprintf("%s:%d", step.File, step.Line)
		}
		rows = append(rows, []string{step.Rule, step.Effect, matches, where, console.Line(why)})
	}
	return console.FoldedTable(out, s, console.Columns(out), []string{"RULE", "EFFECT", "MATCHES", "WHERE", "WHY"}, rows)
}

func printLimits(out io.Writer, s console.Style, r *inspect.ExplanationReport) error {
	var rows [][]string
	number := func(n int) string {
		if n == 0 {
			return "-"
		}
		return strconv.Itoa(n)
	}
	for _, l := range r.Limits {
		rate := l.Rate
		if rate == "" {
			rate = "-"
		}
		rows = append(rows, []string{l.Rule, rate, number(l.Burst), number(l.Concurrent), l.Per})
	}
	return console.Table(out, s, console.Columns(out), []string{"RULE", "RATE", "AT ONCE", "CONCURRENT", "COUNTED PER"}, rows)
}

// decidedBy names the rule or the default that decides.
func decidedBy(rule, file string, line int) string {
	if file != "" {
		return fmt.Sprintf("the rule %s (%s:%d)", rule, file, line)
	}
	return map[string]string{
		policy.RuleDefault: "the default", policy.RuleURI: "the form of the URI", policy.RuleOwn: "the gateway: the item is its own",
		policy.RuleProfileAllow: "what the profile selects", policy.RuleProfileDeny: "the profile's deny list",
		policy.RuleUpstreamAllow: "the upstream's allow list", policy.RuleUpstreamDeny: "the upstream's deny list",
	}[rule]
}

// precedence says which effect wins.
func precedence() string {
	var names []string
	for _, e := range policy.Effects() {
		names = append(names, e.String())
	}
	names[0] = strings.ToUpper(names[0][:1]) + names[0][1:] + " wins"
	return strings.Join(append(names, "the default."), ", then ")
}
