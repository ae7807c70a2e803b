package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/gateway"
)

// reportedGrant is an element of the output of grants --json. Later versions add members, and
// never rename or remove one.
type reportedGrant struct {
	Upstream   string            `json:"upstream"`
	URL        string            `json:"url"` // of the upstream
	Configured bool              `json:"configured"`
	Principal  reportedPrincipal `json:"principal"`
	Issuer     string            `json:"issuer"` // the authorization server
	Scopes     []string          `json:"scopes"`
	Granted    time.Time         `json:"granted"`
	Expires    *time.Time        `json:"expires,omitempty"` // of the access token
	Renewable  bool              `json:"renewable"`
	Used       *time.Time        `json:"used,omitempty"` // to the hour
}

// reportedPrincipal is who gave a grant.
type reportedPrincipal struct {
	Local   bool   `json:"local"` // the user of this machine, by gateway login
	Subject string `json:"subject,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	Proof   string `json:"proof,omitempty"`
}

func newGrants() *cobra.Command {
	var opts runOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "grants [UPSTREAM]",
		Short: "List who granted the gateway access to upstreams",
		Long: "grants lists the grants in state_dir, or in the store of replicas, for upstreams\n" +
			"with auth: {kind: user}: who gave each one, at which authorization server, for\n" +
			"which scopes and when. It shows no tokens. gateway logout removes a grant.",
		Example:           "  gateway grants\n  gateway grants tickets --json",
		ValidArgsFunction: opts.completeLogin,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{errors.New("grants takes one upstream at most")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, _, err := opts.loadSaying(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			all, err := grantsOf(cmd.Context(), cfg, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if asJSON {
				return printGrantsJSON(cmd.OutOrStdout(), cfg, all)
			}
			lost, err := lostGrantsOf(cmd.Context(), cfg, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return printGrants(cmd.OutOrStdout(), cfg, all, lost)
		},
	}
	opts.configFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// grantsOf returns the grants for an upstream, "" for all of them. A grant may be for an
// upstream that the configuration no longer has.
func grantsOf(ctx context.Context, cfg *config.Config, upstream string) ([]credentials.Grant, error) {
	all, err := gateway.Grants(ctx, cfg)
	if err != nil || upstream == "" {
		return all, withDetails(err)
	}
	name := upstream
	for _, u := range cfg.Upstreams {
		if u.Key == upstream {
			name = u.Name
		}
	}
	found := slices.DeleteFunc(all, func(g credentials.Grant) bool { return g.Upstream != name })
	if len(found) == 0 && !slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == name }) {
		return nil, fmt.Errorf("there is no upstream %s; gateway grants%s lists all grants", upstream, advice.ConfigFlag())
	}
	return found, nil
}

// lostGrantsOf returns the grants of this machine's user for an upstream that are of no use any more, "" for those of all upstreams.
func lostGrantsOf(ctx context.Context, cfg *config.Config, upstream string) ([]gateway.LostGrant, error) {
	lost, err := gateway.LostGrants(ctx, cfg)
	if upstream != "" {
		lost = slices.DeleteFunc(lost, func(l gateway.LostGrant) bool { return l.Upstream != config.NameOf(upstream) })
	}
	return lost, withDetails(err)
}

// grantsLeft says which grants for an upstream stay although it was removed, "" if there are none. cfg is the configuration that
// had the upstream, nil if it had errors. with is the flag that names it.
func grantsLeft(ctx context.Context, cfg *config.Config, upstream, with string) string {
	if cfg == nil || !slices.Contains(gateway.LoginNames(cfg), upstream) {
		return ""
	}
	left, err := grantsOf(ctx, cfg, upstream)
	if err != nil || len(left) == 0 {
		return "" // the upstream is removed all the same
	}
	what, stay, all := "The grant of "+console.Line(principalText(left[0])), "stays. To end it", ""
	if len(left) > 1 {
		what, stay = console.Count(len(left), "grant"), "stay. To end them"
	}
	if slices.ContainsFunc(left, func(g credentials.Grant) bool { return !g.Local }) {
		all = " --all"
	}
	return fmt.Sprintf("%s for %s %s: gateway logout %[2]s%[4]s%[5]s", what, upstream, stay, all, with)
}

// grantedNames are the upstreams with grants.
func (o *runOptions) grantedNames(ctx context.Context) ([]string, error) {
	cfg, _, err := o.load()
	if err != nil {
		return nil, err
	}
	all, err := grantsOf(ctx, cfg, "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range all {
		if !slices.Contains(names, g.Upstream) {
			names = append(names, g.Upstream)
		}
	}
	return names, nil
}

// withDetails adds the details of an error to its text, for the user of this machine.
func withDetails(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

func isConfigured(cfg *config.Config, g credentials.Grant) bool {
	return slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool {
		return u.Name == g.Upstream && u.Auth.Kind == config.CredentialUser
	})
}

func printGrantsJSON(out io.Writer, cfg *config.Config, all []credentials.Grant) error {
	reported := make([]reportedGrant, 0, len(all))
	for _, g := range all {
		r := reportedGrant{
			Upstream: g.Upstream, URL: g.URL, Configured: isConfigured(cfg, g), Principal: reportedPrincipal{Local: g.Local},
			Issuer: g.Issuer, Scopes: append([]string{}, g.Scopes...), Granted: g.Given.UTC(), Renewable: g.Renewable,
		}
		if !g.Local {
			r.Principal = reportedPrincipal{Subject: g.Subject, Issuer: g.PrincipalIssuer, Proof: g.AuthMethod}
		}
		if !g.Expires.IsZero() {
			at := g.Expires.UTC()
			r.Expires = &at
		}
		if !g.Used.IsZero() {
			at := g.Used.UTC()
			r.Used = &at
		}
		reported = append(reported, r)
	}
	return printJSON(out, reported)
}

func printGrants(out io.Writer, cfg *config.Config, all []credentials.Grant, lost []gateway.LostGrant) error {
	if len(all) == 0 && len(lost) == 0 {
		folded(out, "Nobody has granted access. gateway login UPSTREAM%s gives a grant for an upstream with auth: {kind: user}.\n", advice.ConfigFlag())
		return nil
	}
	if len(all) > 0 {
		if err := printGrantTable(out, cfg, all); err != nil {
			return err
		}
	}
	for _, l := range lost {
		folded(out, "%s: %s: run gateway login %[1]s%[3]s\n", l.Upstream, l.Why, advice.ConfigFlag())
	}
	return nil
}

func printGrantTable(out io.Writer, cfg *config.Config, all []credentials.Grant) error {
	s := console.StyleOf(out, lookupEnv)
	var rows [][]string
	for _, g := range all {
		upstream := g.Upstream
		if !isConfigured(cfg, g) {
			upstream += " " + s.Warn("(not configured)")
		}
		rows = append(rows, []string{
			upstream, console.Line(principalText(g)), g.Given.Local().Format("2006-01-02 15:04"), console.Line(g.Issuer), console.Line(strings.Join(g.Scopes, " ")),
		})
	}
	return console.FoldedTable(out, s, console.Columns(out), []string{"UPSTREAM", "GIVEN BY", "GIVEN", "ISSUER", "SCOPES"}, rows)
}

// principalText names who gave a grant.
func principalText(g credentials.Grant) string {
	switch {
	case g.Local:
		return "this machine's user"
	case g.PrincipalIssuer != "":
		return g.Subject + " of " + g.PrincipalIssuer
	}
	return g.Subject + " (" + g.AuthMethod + ")"
}

// logoutOptions are the flags of `gateway logout`.
type logoutOptions struct {
	runOptions // only the file is used
	subject    string
	issuer     string
	everybody  bool
}

func newLogout() *cobra.Command {
	var o logoutOptions
	cmd := &cobra.Command{
		Use:   "logout UPSTREAM",
		Short: "Remove a grant and revoke it",
		Long: "logout removes the grant that gateway login has stored for an upstream, and\n" +
			"revokes it at the authorization server if that server offers it (RFC 7009). A\n" +
			"gateway that runs stops using it within half a minute, replicas with a store at\n" +
			"once. With --principal it removes the grant of a client's user, with --all those\n" +
			"of everybody; then the gateway also registers itself anew before the next grant,\n" +
			"in case the authorization server does not know it any more (invalid_client).",
		Example: "  gateway logout tickets\n  gateway logout tickets --principal alice",
		Args: func(cmd *cobra.Command, args []string) error {
			err := oneArg("UPSTREAM")(cmd, args)
			if err == nil || len(args) > 0 {
				return err
			}
			switch names, unread := o.grantedNames(cmd.Context()); {
			case unread != nil:
				return err
			case len(names) == 0:
				return usageError{fmt.Errorf("%w; there is no grant", err)}
			default:
				return usageError{fmt.Errorf("%w; there are grants for %s", err, strings.Join(names, ", "))}
			}
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },

		ValidArgsFunction: o.completeLogin,
	}
	o.configFlag(cmd)
	cmd.Flags().StringVar(&o.subject, "principal", "", "remove the grant of the principal with this `SUBJECT`")
	cmd.Flags().StringVar(&o.issuer, "issuer", "", "`ISSUER` of that principal, if several have the subject")
	cmd.Flags().BoolVar(&o.everybody, "all", false, "remove the grants of everybody for the upstream")
	return cmd
}

func (o *logoutOptions) run(cmd *cobra.Command, upstream string) error {
	if o.everybody && o.subject != "" || o.issuer != "" && o.subject == "" {
		return usageError{errors.New("give --all, or --principal with or without --issuer, or neither for your own grant")}
	}
	cfg, _, err := o.loadSaying(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	all, err := grantsOf(cmd.Context(), cfg, upstream)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	forgotten, err := o.forgetLost(ctx, cmd.OutOrStdout(), cfg, upstream)
	if err != nil {
		return err
	}
	anew := ""
	if o.everybody {
		switch registers, err := gateway.ForgetClient(ctx, cfg, upstream); {
		case err != nil:
			return withDetails(err)
		case registers:
			anew = "If the gateway has registered itself at the authorization server, it registers anew before the next grant.\n"
		}
	}
	chosen, err := o.choose(all, upstream)
	if (forgotten || anew != "") && len(chosen) == 0 {
		if !forgotten {
			folded(cmd.OutOrStdout(), "Nobody has granted access to %s.\n", upstream)
		}
		folded(cmd.OutOrStdout(), "%s", anew)
		return nil
	}
	if err != nil {
		return err
	}
	for _, g := range chosen {
		if err := removeGrant(ctx, cmd.OutOrStdout(), cfg, g); err != nil {
			return err
		}
	}
	what := "it"
	if len(chosen) > 1 {
		what = "them"
	}
	folded(cmd.OutOrStdout(), "A running gateway stops using %s within half a minute.\n", what)
	folded(cmd.OutOrStdout(), "%s", anew)
	return nil
}

// forgetLost removes what gateway grants lists about a grant of this machine's user that is of no use any more. It reports whether there was one.
func (o *logoutOptions) forgetLost(ctx context.Context, out io.Writer, cfg *config.Config, upstream string) (bool, error) {
	if o.subject != "" {
		return false, nil
	}
	lost, err := lostGrantsOf(ctx, cfg, upstream)
	if err != nil {
		return false, err
	}
	for _, l := range lost {
		if err := gateway.ForgetLost(ctx, cfg, l); err != nil {
			return false, withDetails(err)
		}
		folded(out, "%s: %s; it is removed.\n", l.Upstream, l.Why)
	}
	return len(lost) > 0, nil
}

// choose returns the grants to remove.
func (o *logoutOptions) choose(all []credentials.Grant, upstream string) ([]credentials.Grant, error) {
	chosen := slices.DeleteFunc(slices.Clone(all), func(g credentials.Grant) bool {
		switch {
		case o.everybody:
			return false
		case o.subject == "":
			return !g.Local
		}
		return g.Local || g.Subject != o.subject || o.issuer != "" && g.PrincipalIssuer != o.issuer
	})
	switch {
	case len(chosen) == 0:
		have := "you have granted no"
		switch {
		case o.everybody:
			have = "nobody has granted"
		case o.subject != "":
			have = fmt.Sprintf("%q has granted no", o.subject)
		}
		return nil, fmt.Errorf("%s access to %s; gateway grants%s lists all grants", have, upstream, advice.ConfigFlag())
	case len(chosen) > 1 && !o.everybody && o.subject != "" && o.issuer == "" && chosen[0].PrincipalIssuer != chosen[1].PrincipalIssuer:
		return nil, usageError{fmt.Errorf("several principals have the subject %s; add --issuer %s or another one", o.subject, chosen[0].PrincipalIssuer)}
	}
	return chosen, nil
}

func removeGrant(ctx context.Context, out io.Writer, cfg *config.Config, g credentials.Grant) error {
	revoked, untold, err := gateway.Logout(ctx, cfg, g)
	if err != nil {
		return withDetails(err)
	}
	what := "removed and revoked"
	switch {
	case untold != nil:
		what = fmt.Sprintf("removed. %s was not told (%v): end the access there too", console.Line(g.Issuer), untold)
	case !revoked:
		what = fmt.Sprintf("removed. %s offers no revocation: end the access there too", console.Line(g.Issuer))
	}
	folded(out, "The grant of %s for %s is %s.\n", console.Line(principalText(g)), g.Upstream, what)
	return nil
}
