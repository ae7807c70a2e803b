package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/ruleset"
	"mcpgateway/internal/wire"
)

// explainOptions are the flags of `gateway explain`.
type explainOptions struct {
	visitOptions
	args, kind, revision string
	token                string
	json                 bool
	timeout              time.Duration
	running              inForce
}

// explainKinds are the values of --kind, in the order in which a name is tried.
var explainKinds = []call.Kind{call.Tool, call.Prompt, call.Resource}

func newExplain() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Say which rule decides about an item, and why",
		Long: "explain says whether a principal may use a tool, prompt or resource, which rule\n" +
			"of policy decides that, why each other rule matches or does not, and which limits\n" +
			"count the call. With --profile it says what in the profile leaves the item out. It starts the upstream of NAME, since rules may read its\n" +
			"description of the item, and calls nothing. If the upstream is down, the answer is\n" +
			"for its last lists or for the name alone. Without --args it says whether any\n" +
			"arguments may be allowed. The name /ui stands for the console at the main address.\n\n" +
			"The groups and scopes of API keys and certificates are those of the configuration.\n" +
			"--token judges an access token or an API key as the gateway would; write @FILE, or\n" +
			"- for standard input, to keep it out of the history of your shell.",
		Example: "  gateway explain db__query --as alice,group=analyst\n  gateway explain db__query --as alice,claim.tier=gold --args '{\"limit\": 5000}'\n" +
			"  gateway explain db__query --as ci,proof=api-key\n  gateway explain db__query --profile coding\n  gateway explain db__query --token @token.jwt",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 && strings.HasPrefix(args[1], "{") {
				return usageError{fmt.Errorf("give the arguments with --args: gateway explain %s --args %s", args[0], shellWord(args[1]))}
			}
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
	o.profileFlag(cmd, "profile `NAME` in which they ask (default: the one that they get at /mcp)")
	cmd.Flags().StringVar(&o.token, "token", "", "`TOKEN` or API key of the caller in place of --as; @FILE reads it from a file, - from standard input")
	cmd.Flags().StringVar(&o.args, "args", "", "`JSON` object with the arguments")
	cmd.Flags().StringVar(&o.kind, "kind", "", "`KIND` of the item: tool, prompt or resource (default: the first that has the name)")
	cmd.Flags().StringVar(&o.revision, "revision", string(wire.ModernRevisions()[0]), "`REVISION` that the client speaks")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	timeoutFlag(cmd, &o.timeout)
	complete(cmd, "kind", func() []string { return []string{"tool", "prompt", "resource"} })
	return cmd
}

func (o *explainOptions) run(cmd *cobra.Command, name string) error {
	cfg, source, err := o.config(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	q, kinds, err := o.question(name)
	if err != nil {
		return err
	}
	o.running = askInForce(cmd.Context(), cfg, source)
	warn(cmd, o.running.restartWarning())
	about, err := o.who(cmd, cfg, &q)
	if err != nil {
		return err
	}
	if q.Principal == nil {
		return o.printRefused(cmd.OutOrStdout(), &q, about)
	}
	if name == inspect.ConsolePath {
		rules, err := ruleset.New(cfg)
		if err != nil {
			return err
		}
		q.Console = true
		return o.print(cmd.OutOrStdout(), &q, &inspect.Explanation{Explanation: rules.Policy.Console(q.Principal)}, about)
	}
	look := *cfg
	keepUpstreamsOf(&look, name)
	show := func(e *inspect.Explanation) error { return o.print(cmd.OutOrStdout(), &q, e, about) }
	return visitStarted(cmd, &look, source, o.timeout, func(_ context.Context, v *gateway.InProcess, _ *console.Screen) error {
		for _, kind := range kinds {
			q.Kind = kind
			if e, ok := v.Explain(q); ok {
				return show(&e)
			}
		}
		if o.kind == "" && strings.Contains(name, "://") {
			kinds = []call.Kind{call.Resource} // an upstream without a prefix may have any name
		}
		for _, kind := range kinds {
			q.Kind = kind
			if e, ok := v.ExplainUnlisted(q); ok {
				return show(&e)
			}
		}
		return absent(v, cfg, q, kinds)
	})
}

// question reads the flags, except those for the principal.
func (o *explainOptions) question(name string) (inspect.Question, []call.Kind, error) {
	q := inspect.Question{Public: name, Revision: wire.Revision(o.revision)}
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
func absent(v *gateway.InProcess, cfg *config.Config, q inspect.Question, kinds []call.Kind) error {
	name := q.Public
	for _, u := range v.Upstreams() {
		if u.Revision == "" && mayHave(cfg, &q, u.Name) {
			if near := unprefixed(v, cfg, q, kinds); len(near) > 0 {
				return fmt.Errorf("%q is unknown%s (gateway list%s shows all names)", name, didYouMeanOne(near), advice.ConfigFlag())
			}
			return fmt.Errorf("%q is unknown, and the upstream %s, which may have it, is %s: %s", name, u.Name, u.State, cmp.Or(console.Line(u.Reason), "it has not answered yet"))
		}
	}
	for _, f := range v.Everything().Findings() {
		if f.Native != "" && f.Public == "" && strings.HasSuffix(name, f.Native) {
			return fmt.Errorf("%q is not published: %s", name, console.Line(f.String()))
		}
	}
	for _, kind := range kinds {
		q.Kind = kind
		if near := v.Similar(q); len(near) > 0 {
			return fmt.Errorf("no upstream has %q%s (gateway list%s shows all names)", name, didYouMeanOne(near), advice.ConfigFlag())
		}
	}
	if near := nearPrefix(cfg, name); near != "" {
		return fmt.Errorf("no upstream has %q; did you mean a name that begins with %q? (gateway list%s shows all names)", name, near, advice.ConfigFlag())
	}
	if requestid.IsMade(name) {
		return fmt.Errorf("no upstream has %q; if it is a request id, the log and the audit have why that request ended as it did", name)
	}
	return fmt.Errorf("no upstream has %q; gateway list%s shows all names", name, advice.ConfigFlag())
}

// unprefixed returns the listed names that differ from the name of a question by their prefix alone. One of them is meant more
// probably than an item of an upstream that is down.
func unprefixed(v *gateway.InProcess, cfg *config.Config, q inspect.Question, kinds []call.Kind) (names []string) {
	for _, kind := range kinds {
		q.Kind = kind
		for _, near := range v.Similar(q) {
			if strings.HasSuffix(near, cfg.Namespace.Separator+q.Public) || strings.HasSuffix(near, "+"+q.Public) {
				names = append(names, near)
			}
		}
	}
	return names
}

// nearPrefix returns the beginning of the names of the upstream that a name with another prefix probably means, "" for none.
func nearPrefix(cfg *config.Config, name string) string {
	var prefixes []string
	for _, u := range cfg.Upstreams {
		prefixes = append(prefixes, u.EffectivePrefix())
	}
	for _, separator := range []string{cfg.Namespace.Separator, "+"} { // of names and of URIs
		head, _, found := strings.Cut(name, separator)
		if near := plaintext.Nearest(head, prefixes); found && near != "" && near != head {
			return near + separator
		}
	}
	return ""
}

// mayHave reports whether an upstream may have the name of a question: one that begins with its prefix, or any name if it
// has no prefix or the profile leaves prefixes out.
func mayHave(cfg *config.Config, q *inspect.Question, upstream string) bool {
	at := slices.IndexFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == upstream })
	if at < 0 { // of the demo
		return strings.HasPrefix(q.Public, upstream)
	}
	naming, err := namespace.New(upstream, cfg.Upstreams[at].EffectivePrefix(), cfg.Namespace.Separator)
	if err != nil {
		return true
	}
	if _, ok := naming.NativeURI(q.Public); ok || strings.HasPrefix(q.Public, naming.NamePrefix()) {
		return true
	}
	short := func(p config.Profile) bool {
		return endpoint.IDOf(p.Name) == q.Principal.Profile && p.Names == config.NamesShort
	}
	return slices.ContainsFunc(cfg.Profiles, short)
}
