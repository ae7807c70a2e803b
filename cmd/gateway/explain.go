package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// explainOptions are the flags of `gateway explain`.
type explainOptions struct {
	visitOptions
	args, kind, revision string
	json                 bool
	timeout              time.Duration
}

// explainKinds are the values of --kind, in the order in which a name is tried.
var explainKinds = []call.Kind{call.Tool, call.Prompt, call.Resource}

func newExplain() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Say which rule decides about an item, and why",
		Long: "explain says whether a principal may use a tool, prompt or resource, which rule\n" +
			"of policy decides that, and why each other rule matches or does not. It starts the\n" +
			"upstream of NAME, since rules may read its description of the item, and calls\n" +
			"nothing. Without --args it says whether any arguments may be allowed.",
		Example: "  gateway explain db__query --as alice,group=analyst\n  gateway explain db__query --as alice,claim.tier=gold --args '{\"limit\": 5000}'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("explain takes one public name or URI, as gateway list shows it")}
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return o.toolNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.configFlag(cmd)
	o.asFlag(cmd, "who asks")
	cmd.Flags().StringVar(&o.args, "args", "", "`JSON` object with the arguments")
	cmd.Flags().StringVar(&o.kind, "kind", "", "`KIND` of the item: tool, prompt or resource (default: the first that has the name)")
	cmd.Flags().StringVar(&o.revision, "revision", string(wire.ModernRevisions()[0]), "`REVISION` that the client speaks")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	timeoutFlag(cmd, &o.timeout)
	complete(cmd, "kind", func() []string { return []string{"tool", "prompt", "resource"} })
	return cmd
}

func (o *explainOptions) run(cmd *cobra.Command, name string) error {
	cfg, source, err := o.config()
	if err != nil {
		return err
	}
	q, kinds, err := o.question(cfg, name)
	if err != nil {
		return err
	}
	o.warnWithoutCredentials(cmd, cfg)
	look := *cfg
	keepUpstreamsOf(&look, name)
	return visitStarted(cmd, &look, source, o.timeout, func(_ context.Context, v *gateway.InProcess, _ *console.Screen) error {
		for _, kind := range kinds {
			q.Kind = kind
			if e, ok := v.Explain(q); ok {
				return o.print(cmd.OutOrStdout(), &q, &e)
			}
		}
		return absent(v, name)
	})
}

// question reads the flags.
func (o *explainOptions) question(cfg *config.Config, name string) (inspect.Question, []call.Kind, error) {
	q := inspect.Question{Public: name, Revision: wire.Revision(o.revision)}
	var err error
	if q.Principal, err = o.principal(cfg); err != nil {
		return q, nil, err
	}
	if q.Revision.Era() == wire.EraUnknown {
		return q, nil, usageError{fmt.Errorf("--revision %s: no such revision; gateway version lists them", o.revision)}
	}
	if o.args != "" {
		q.Arguments = wire.Raw(o.args)
		if err := wire.Check(q.Arguments, wire.Limits{}, wire.Strict); err != nil || wire.ValueOf(q.Arguments).Kind() != '{' {
			return q, nil, usageError{errors.New("--args must be a JSON object, such as '{\"limit\": 5}'")}
		}
	}
	if o.kind == "" {
		return q, explainKinds, nil
	}
	for _, kind := range explainKinds {
		if kind.String() == o.kind {
			return q, []call.Kind{kind}, nil
		}
	}
	return q, nil, usageError{fmt.Errorf("--kind %s: must be tool, prompt or resource", o.kind)}
}

// absent says why there is no item to decide about.
func absent(v *gateway.InProcess, name string) error {
	for _, u := range v.Upstreams() {
		if u.Revision == "" {
			return fmt.Errorf("%q is unknown, and the upstream %s, which may have it, is %s: %s", name, u.Name, u.State, console.Line(u.Reason))
		}
	}
	for _, f := range v.Table().Findings() {
		if f.Native != "" && f.Public == "" && strings.HasSuffix(name, f.Native) {
			return fmt.Errorf("%q is not published: %s", name, console.Line(f.String()))
		}
	}
	return fmt.Errorf("no upstream has %q; gateway list shows all names", name)
}

func (o *explainOptions) print(out io.Writer, q *inspect.Question, e *inspect.Explanation) error {
	d, r := &e.Decision, e.Report(q)
	if o.json {
		return printJSON(out, r)
	}
	s := console.StyleOf(out, lookupEnv)
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
	if q.Kind != call.Resource && q.Arguments == nil && d.Allowed() {
		some = ", with some arguments at least"
	}
	fmt.Fprintf(out, "%s %s the %s %s (%s of %s)%s.\nIt is decided by %s. %s\n\n",
		console.Line(r.Subject), may, r.Kind, console.Line(r.Item), console.Line(r.Native), r.Upstream, some, decidedBy(r.Rule, r.File, r.Line), precedence())
	var rows [][]string
	for _, step := range r.Steps {
		matches := s.Dim("no")
		if step.Matches {
			matches = "yes"
		}
		where := "-"
		if step.File != "" {
			where = fmt.Sprintf("%s:%d", step.File, step.Line)
		}
		rows = append(rows, []string{step.Rule, step.Effect, matches, where, console.Line(step.Reason)})
	}
	return console.Table(out, s, console.Columns(out), []string{"RULE", "EFFECT", "MATCHES", "WHERE", "WHY"}, rows)
}

// decidedBy names the rule or the default that decides.
func decidedBy(rule, file string, line int) string {
	if file != "" {
		return fmt.Sprintf("the rule %s (%s:%d)", rule, file, line)
	}
	return map[string]string{
		policy.RuleDefault: "the default", policy.RuleURI: "the form of the URI",
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
