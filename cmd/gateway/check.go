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

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/clientauth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/demo"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/ruleset"
)

// checkOptions are the flags of `gateway check`.
type checkOptions struct {
	runOptions
	offline, json bool
	names         []string      // upstreams to connect to; none: all
	probe         []string      // upstreams to probe
	timeout       time.Duration // for all to be ready
	callTimeout   time.Duration // for each answer
}

func newCheck() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check [UPSTREAM…]",
		Short: "Check the configuration and every upstream",
		Long: "check reports all errors of the configuration at once. Then it connects to every\n" +
			"upstream and reports whether it can be reached, its era and revision, how many\n" +
			"items it lists, items whose names clash, and violations of the specification. It\n" +
			"listens on no address. With names it connects only to these upstreams, and with\n" +
			"--profile only to those of the profile. It counts what each profile has.\n\n" +
			"--probe UPSTREAM also checks answers: it calls the tools that declare that they\n" +
			"only read (readOnlyHint) with arguments from their own schemas, gets the prompts\n" +
			"without required arguments, and reads some of the resources. It calls nothing else.\n\n" +
			"The exit status is 1 after an error: an error in the configuration, an upstream\n" +
			"that cannot be reached or listed, or an answer that clients cannot get. Warnings\n" +
			"leave it at 0. Interrupted, check prints what it knows and ends by the signal.",
		Example: "  gateway check -c gateway.yaml\n  gateway check --offline        # only the file\n  gateway check search           # one upstream\n" +
			"  gateway check --profile coding # one profile and its upstreams\n" +
			"  gateway check --probe search   # all, and the answers of search",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return o.upstreamNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return o.run(cmd)
		},
	}
	o.configFlag(cmd)
	o.profileFlag(cmd, "check only the profile `NAME` and its upstreams (default: all profiles)")
	cmd.Flags().BoolVar(&o.offline, "offline", false, "connect to nothing")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	cmd.Flags().StringArrayVar(&o.probe, "probe", nil, "also check answers of the upstream `NAME`; may be repeated")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long all upstreams together may take to start, as `DURATION`; 0 means the limits of the upstreams")
	cmd.Flags().DurationVar(&o.callTimeout, "call-timeout", 10*time.Second, "how long each answer may take with --probe, as `DURATION`")
	complete(cmd, "probe", o.upstreamNames)
	return cmd
}

func (o *checkOptions) run(cmd *cobra.Command) error {
	report := &inspect.Report{Upstreams: []inspect.UpstreamReport{}, Findings: []inspect.Finding{}}
	cfg, source, err := o.loadSaying(cmd.ErrOrStderr())
	report.File = source.File
	if err == nil {
		err = cfg.CheckLoops()
	}
	var errs config.Errors
	switch {
	case errors.As(err, &errs):
		if !o.json {
			return err
		}
		for _, f := range errs {
			report.Findings = append(report.Findings, fileFinding(inspect.SeverityError, *f))
		}
		return o.print(cmd, report)
	case err != nil:
		return err
	}
	for _, w := range cfg.Warnings {
		report.Findings = append(report.Findings, fileFinding(inspect.SeverityWarning, config.Error(w)))
	}
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		u.Unset = slices.Concat(u.Unset, gateway.UnusableTLS(*u)) // not connected to either
		for _, v := range u.Unset {
			if !u.Disabled && o.wanted(u.Name) {
				f := fileFinding(inspect.SeverityError, v.Place)
				if f.Upstream = u.Name; v.Name != "" {
					f.What = "unset"
				}
				report.Findings = append(report.Findings, f)
			}
		}
	}
	if err := gateway.CheckTLS(cfg); err != nil {
		report.Findings = append(report.Findings, placed(source.File, inspect.Finding{Severity: inspect.SeverityError, What: "configuration", Message: err.Error(), Path: "tls"}))
	}
	if err := gateway.CheckAudit(cfg); err != nil {
		report.Findings = append(report.Findings, placed(source.File, inspect.Finding{Severity: inspect.SeverityError, What: "configuration", Message: err.Error(), Path: "telemetry.audit.file"}))
	}
	unusable := gateway.CheckStoreTLS(cfg)
	if unusable != nil {
		report.Findings = append(report.Findings, placed(source.File, inspect.Finding{Severity: inspect.SeverityError, What: "configuration", Message: unusable.Error(), Path: "store.tls"}))
	}
	if !o.offline {
		if err := gateway.CheckStore(cmd.Context(), cfg); err != nil && unusable == nil {
			report.Findings = append(report.Findings, placed(source.File, inspect.Finding{Severity: inspect.SeverityWarning, What: "store", Message: fmt.Sprintf("cannot be reached: %v", err), Path: "store"}))
		}
		failing, err := clientauth.CheckIssuers(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		for _, text := range failing {
			report.Findings = append(report.Findings, placed(source.File, inspect.Finding{Severity: inspect.SeverityWarning, What: "issuer", Message: text, Path: "auth.jwt"}))
		}
	}
	if err := o.upstreams(cmd, cfg, source.File, report); err != nil {
		return err
	}
	return o.print(cmd, report)
}

// placed sets the place of a finding about a key of a file that was read without errors.
func placed(file string, f inspect.Finding) inspect.Finding {
	f.File = file
	data, err := configfile.Read(file)
	if err != nil {
		return f
	}
	n, parseErr := configfile.Parse(file, data)
	if parseErr != nil {
		return f
	}
	for key := range strings.SplitSeq(f.Path, ".") {
		n = configfile.Child(n, key)
	}
	if n != nil {
		f.Line, f.Column = n.Line, n.Column
	}
	return f
}

func fileFinding(severity string, e config.Error) inspect.Finding {
	return inspect.Finding{Severity: severity, What: "configuration", Message: e.Msg, File: e.File, Line: e.Line, Column: e.Col, Path: e.Path}
}

// upstreams connects to the upstreams and checks them.
func (o *checkOptions) upstreams(cmd *cobra.Command, cfg *config.Config, source string, report *inspect.Report) error {
	if err := o.known(cfg, source); err != nil {
		return err
	}
	broken, usable := ruleset.CheckTools(cmd.Context(), cfg)
	report.Findings = append(report.Findings, broken...)
	profiles := o.profiles(cfg)
	if o.profile != "" {
		for _, u := range ruleset.UpstreamsOf(cfg, endpoint.IDOf(o.profile)) {
			o.names = append(o.names, u.Name)
		}
	}
	look := *cfg
	look.Profiles = usable
	look.Upstreams = slices.DeleteFunc(slices.Clone(cfg.Upstreams), func(u config.Upstream) bool { return u.Disabled || !o.wanted(u.Name) })
	unchanged := make(map[string]bool)
	for i, u := range look.Upstreams {
		look.Upstreams[i].Start, look.Upstreams[i].IdleStop = config.StartEager, 0 // a check connects to all
		if slices.Contains(o.probe, u.Name) && u.Conformance == config.ConformanceOff {
			look.Upstreams[i].Conformance = config.ConformanceWarn // a probe reports violations
			unchanged[u.Name] = true
		}
		look.Upstreams[i].Breaker.Failures = 0 // each item is probed, whatever the ones before answered
	}
	// The answers of upstreams do not depend on the policy, nor on what /mcp shows.
	look.Policy = config.Policy{Default: config.Allow}
	if len(o.probe) > 0 {
		look.Profiles = slices.DeleteFunc(slices.Clone(usable), func(p config.Profile) bool { return p.Name == endpoint.Default })
	}
	found := &inspect.Report{}
	if !o.offline && (len(look.Upstreams) > 0 || source == "") {
		progress := newProgress(cmd)
		err := visit(cmd, &look, source, 0, progress.watch, func(ctx context.Context, v *gateway.InProcess) error {
			_ = progress.wait(ctx, v, o.timeout) // the report says what has not started
			defer progress.screen.Status("")
			var unmatched []catalog.UnusedGlob
			if rules, err := ruleset.New(cfg); err == nil { // else CheckTools has reported the error
				unmatched = rules.UnmatchedGlobs(v.Everything(), func(string) bool { return true }) // it skips what is down
				unmatched = slices.DeleteFunc(unmatched, rules.HasWarning)
			}
			found = v.Check(ctx, inspect.CheckOptions{
				Upstreams: o.names, Profiles: profiles, Unchanged: unchanged, UnmatchedGlobs: unmatched,
				Late: func(upstream, reason string) string {
					return unfinishedReason(o.timeout, reason, isRemote(cfg, upstream))
				},
				Probe: o.probe, Limits: inspect.ProbeLimits{Call: o.callTimeout, Items: probeItems},
				Progress: func(upstream string) { progress.screen.Status("probing " + upstream) },
			})
			found.Findings = append(found.Findings, unknownCalls(v, found, &look)...)
			if sig, ok := errors.AsType[interruption](context.Cause(ctx)); ok {
				progress.screen.Status("")
				// The upstreams may take seconds to end. They end with this process, too.
				found.Findings = append(found.Findings, inspect.Finding{Severity: inspect.SeverityError, What: inspect.Unfinished, Message: "the check was interrupted before it was done"})
				o.add(report, found, cfg, source)
				_ = o.print(cmd, report) // that it failed is known
				endBy(sig.Signal)
			}
			return context.Cause(ctx)
		})
		if err != nil {
			return err
		}
	}
	o.add(report, found, cfg, source)
	return nil
}

// add adds what was found about the upstreams to a report.
func (o *checkOptions) add(report, found *inspect.Report, cfg *config.Config, source string) {
	report.Findings = append(report.Findings, found.Findings...)
	report.Probes, report.Profiles = found.Probes, found.Profiles
	if source == "" {
		report.Upstreams = append(report.Upstreams, found.Upstreams...)
	}
	for _, u := range cfg.Upstreams {
		checked := inspect.UpstreamReport{Name: u.Name, State: "unchecked", Required: u.Required}
		if u.Disabled {
			checked.State = "disabled"
		}
		if at := slices.IndexFunc(found.Upstreams, func(f inspect.UpstreamReport) bool { return f.Name == u.Name }); at >= 0 {
			checked = found.Upstreams[at]
		}
		checked.Start = string(u.Start)
		report.Upstreams = append(report.Upstreams, checked)
	}
}

// unknownCalls reports calls of tools in files that their profile does not have, unless an upstream that may have them
// could not be reached.
func unknownCalls(v *gateway.InProcess, found *inspect.Report, cfg *config.Config) []inspect.Finding {
	if slices.ContainsFunc(found.Upstreams, func(u inspect.UpstreamReport) bool { return u.Revision == "" }) {
		return nil
	}
	return ruleset.CheckCalls(cfg, func(profile, tool string) bool {
		_, ok := v.Table(endpoint.IDOf(profile)).View(call.Anonymous, nil).Resolve(call.Tool, tool)
		return ok
	})
}

// profiles are the names of the profiles to check: none if only some upstreams are checked, or if there is only the
// default profile and it has everything.
func (o *checkOptions) profiles(cfg *config.Config) []string {
	switch {
	case o.profile != "":
		return []string{o.profile}
	case len(o.names) > 0 || len(cfg.Profiles) == 0:
		return nil
	}
	return endpointNames(cfg)
}

// wanted reports whether an upstream is one of those to connect to.
func (o *checkOptions) wanted(name string) bool {
	return len(o.names) == 0 || slices.Contains(o.names, name)
}

// known reports names of upstreams that do not exist or cannot be checked.
func (o *checkOptions) known(cfg *config.Config, source string) error {
	if err := o.knownProfile(cfg); err != nil {
		return err
	}
	if o.profile != "" && len(o.names) > 0 {
		return usageError{errors.New("--profile selects the upstreams: remove it, or the names of upstreams")}
	}
	if o.offline && o.profile != "" {
		return usageError{errors.New("--offline connects to nothing: remove --profile")}
	}
	if o.offline && len(o.probe)+len(o.names) > 0 {
		return usageError{errors.New("--offline connects to nothing: remove --probe and the names of upstreams")}
	}
	all := namesOf(cfg)
	if source == "" {
		all = demoNames()
	}
	for _, name := range append(slices.Clone(o.names), o.probe...) {
		what := name
		if !slices.Contains(o.names, name) {
			what = "--probe " + name
		}
		i := slices.IndexFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == name })
		switch {
		case !slices.Contains(all, name):
			return usageError{fmt.Errorf("%s: no such upstream; there are %s%s", what, cmp.Or(strings.Join(all, ", "), "none"), fileHint(name))}
		case i >= 0 && cfg.Upstreams[i].Disabled:
			return usageError{fmt.Errorf("%s: the upstream is disabled", what)}
		case !o.wanted(name):
			return usageError{fmt.Errorf("%s: the upstream is not among those to connect to, %s", what, strings.Join(o.names, ", "))}
		}
	}
	return nil
}

func demoNames() []string {
	var names []string
	for _, s := range demo.Servers() {
		names = append(names, s.Name)
	}
	return names
}

func namesOf(cfg *config.Config) []string {
	var names []string
	for _, u := range cfg.Upstreams {
		names = append(names, u.Name)
	}
	return names
}
