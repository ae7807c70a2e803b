package main

import (
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
)

func newReload() *cobra.Command {
	var o reachOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running gateway read its file again",
		Long: "reload makes the gateways that you run on this machine read their configuration\n" +
			"again, and prints what changed. If a file has errors, nothing changes, and reload\n" +
			"prints them and exits with 1. It also exits with 1 if an upstream is down\n" +
			"because variables are not set, or keeps its connection because of them or because\n" +
			"a file that it needs (ca, client_cert) cannot be used, or if new files of tls, or\n" +
			"of ca and client_cert of an upstream, cannot be used. With -c it asks only\n" +
			"gateways with that file, and with --url the gateway of an admin address.",
		Example: "  gateway reload\n  gateway reload -c ~/mcp/gateway.yaml\n" +
			"  gateway reload --url http://127.0.0.1:9090 --header \"Authorization: Bearer $T\"",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.reload(cmd, asJSON) },
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (o *reachOptions) reload(cmd *cobra.Command, asJSON bool) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	all, err := o.find(ctx)
	if err != nil {
		warnUnread(cmd.ErrOrStderr(), o.unread, nil) // the answer of a gateway has the errors
		return err
	}
	// A gateway without a file is the demo, which is not what anybody means unless it is the only one.
	if withFile := slices.DeleteFunc(slices.Clone(all), func(r *running) bool { return r.status != nil && r.status.File == "" }); len(withFile) > 0 {
		all = withFile
	}
	failed := false
	for _, r := range all {
		var report inspect.ReloadReport
		if err := o.ask(ctx, r, http.MethodPost, "/-/reload", &report); err != nil {
			return err
		}
		failed = failed || len(report.Errors)+len(report.Kept)+len(report.Failing) > 0
		if asJSON {
			err = printJSON(cmd.OutOrStdout(), report)
		} else {
			printReload(cmd.OutOrStdout(), cmd.ErrOrStderr(), r.name(), report)
		}
		if err != nil {
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// name names a gateway for people.
func (r *running) name() string {
	switch {
	case r.status == nil:
		return r.base
	case r.status.File == "":
		return fmt.Sprintf("the demo (process %d)", r.status.PID)
	}
	return fmt.Sprintf("%s (process %d)", tilde(r.status.File), r.status.PID)
}

func printReload(out, errs io.Writer, name string, r inspect.ReloadReport) {
	for _, e := range r.Errors {
		folded(errs, "%s\n", reloadError(e))
	}
	if r.Status == inspect.ReloadRefused {
		folded(errs, "%s: not reloaded; the configuration before stays in force.\n", name)
	} else {
		text, n := reloadText(r), r.Noticed
		switch {
		case n == nil && text == inspect.ReloadUnchanged && len(r.Kept)+len(r.Failing) == 0:
			text += "; this file is in force"
		case n != nil:
			text = fmt.Sprintf("%s; it noticed the change %s ago (%s)", text, console.Ago(time.Since(n.At)), reloadText(n.ReloadReport))
		}
		if at := r.CertificateRenewed; at != nil {
			text += fmt.Sprintf("; new TLS files came into use %s ago", console.Ago(time.Since(*at)))
		}
		if at := r.CertificateExpires; at != nil && len(r.Failing) == 0 {
			text += "; the certificate in use expires at " + at.Format(time.RFC3339)
		}
		folded(out, "%s: %s.\n", name, text)
	}
	for _, w := range warningsOf(r) {
		folded(errs, "%s\n", w)
	}
	for _, f := range r.Failing {
		folded(errs, "%s: %s\n", name, f)
	}
	for _, k := range r.Kept {
		for _, e := range k.Errors {
			folded(errs, "%s\n", reloadError(e))
		}
		folded(errs, "%s: %s.\n", name, k)
	}
	if len(r.NeedsRestart) > 0 {
		folded(out, "Restart it for: %s\n", strings.Join(r.NeedsRestart, ", "))
	}
}

// reloadText describes a reload in one line.
func reloadText(r inspect.ReloadReport) string {
	var parts []string
	for _, c := range []struct {
		verb  string
		names []string
	}{
		{"added", r.Added}, {"removed", r.Removed}, {"changed", r.Changed}, {"changed keys:", r.Keys},
		{"added rules:", r.RulesAdded}, {"removed rules:", r.RulesRemoved}, {"changed rules:", r.RulesChanged},
	} {
		if len(c.names) > 0 {
			parts = append(parts, c.verb+" "+strings.Join(c.names, ", "))
		}
	}
	if r.OtherKeys && r.Keys == nil { // a gateway of an earlier version
		parts = append(parts, "changed other keys")
	}
	switch {
	case len(parts) > 0:
	case r.Status == inspect.ReloadUnchanged && len(r.NeedsRestart) > 0: // the file may have changed
		return "nothing changes without a restart"
	default:
		return r.Status
	}
	return r.Status + ", " + strings.Join(parts, "; ")
}

// maxWarnings bounds how many warnings of a reload are printed.
const maxWarnings = 10

// warningsOf returns the first warnings of a reload, a line each.
func warningsOf(r inspect.ReloadReport) (lines []string) {
	for i, w := range r.Warnings {
		if i == maxWarnings {
			return append(lines, fmt.Sprintf("and %s; gateway check%s prints all", console.Count(len(r.Warnings)-i, "more warning"), advice.ConfigFlag()))
		}
		lines = append(lines, "warning: "+reloadError(w))
	}
	return lines
}

// reloadError is an error with its position, as config.Error prints it.
func reloadError(e inspect.ReloadError) string {
	text := e.Message
	if e.Key != "" {
		text = e.Key + ": " + text
	}
	switch {
	case e.File == "":
	case e.Column > 0:
		text = fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, text)
	case e.Line > 0: // a rule
		text = fmt.Sprintf("%s:%d: %s", e.File, e.Line, text)
	default:
		text = e.File + ": " + text
	}
	return text
}
