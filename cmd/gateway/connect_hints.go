package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/console"
	"mcpgateway/internal/hostconfig"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/ruleset"
)

// urlHint says how a host uses the gateway that runs with a file, in place of a process of its own.
func (o *connectOptions) urlHint(cmd *cobra.Command, h hostconfig.Host, file string) {
	profile := ""
	if o.profile != "" {
		profile = " --profile " + o.profile
	}
	for _, s := range serving(cmd.Context(), nil) {
		if sameFile(file, s.File) {
			folded(cmd.OutOrStdout(), "Your gateway runs: to let %s use it in place of a process of its own, run gateway connect %s --http %s%s%s\n", h.Title, h.Name, s.URL, profile, o.place())
			return
		}
	}
}

// localHint warns if policy allows the user of "gateway stdio" nothing, such as rules for groups, which that user has none of.
func localHint(errs io.Writer, cfg *config.Config) {
	rules, err := ruleset.New(cfg)
	if err != nil {
		return // the configuration was checked when it was loaded
	}
	rights := rules.Policy.Rights(policy.Caller{Principal: call.Local})
	every := [call.Kinds][]string{{""}, {""}, {""}, {""}}
	if !slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return rights.MayAllow(u.Name, every) }) && len(cfg.Upstreams) > 0 {
		folded(errs, "warning: the host will see nothing: the gateway that it starts acts for the user \"local\", who has no groups, and no rule of policy allows that user anything. Add a rule with who: {subjects: [local]}, or connect the host to a running gateway with --http URL.\n")
	}
}

// unsetHint warns of the variables and files that upstreams lack: they stay down, which the host does not show.
func unsetHint(errs io.Writer, cfg *config.Config) {
	for _, u := range cfg.Upstreams {
		for _, v := range u.Unset {
			if !u.Disabled {
				folded(errs, "warning: %s\n", &v.Place)
			}
		}
	}
}

// othersHint says which servers the host has beside the gateway, and how to put them behind it.
func (o *connectOptions) othersHint(out io.Writer, h hostconfig.Host, f *hostconfig.File, e hostconfig.Entry, others []string) {
	if len(others) == 0 {
		return
	}
	do := "run gateway import --merge " + shellWord(f.Name)
	if e.URL == "" { // else the configuration is not known
		do = o.importing(h, f, e.Args[2])
	}
	folded(out, "%s has other servers: %s. To put them behind the gateway, %s, then remove them from %s: the tools of a server in both places appear twice.\n",
		h.Title, quotedNames(others), do, tilde(f.Name))
}

// importing says how to add the servers of a host to a configuration. A host's file can be a configuration, and no verb
// edits it.
func (o *connectOptions) importing(h hostconfig.Host, f *hostconfig.File, file string) string {
	data, err := configfile.Read(file)
	if err == nil {
		if _, bad := configfile.NewEdit(file, data); bad == nil {
			return fmt.Sprintf("run gateway import --merge%s %s", withConfig(o.file), shellWord(f.Name))
		}
	}
	root, bad := configfile.Parse(file, data)
	if err != nil || bad != nil || configfile.Child(root, "upstreams") != nil {
		return fmt.Sprintf("add them to %s by hand", tilde(file))
	}
	from := shellWord(file)
	if !sameFile(file, f.Name) {
		from += " " + shellWord(f.Name)
	}
	profile := ""
	if o.profile != "" {
		profile = " --profile " + shellWord(o.profile)
	}
	return fmt.Sprintf("make a gateway.yaml with gateway import %s -o gateway.yaml, run gateway connect %s -c gateway.yaml%s%s", from, h.Name, profile, o.place())
}

// quotedNames names servers of a host, of many the first ones.
func quotedNames(all []string) string {
	const most = 8
	var names []string
	for _, name := range all[:min(len(all), most)] {
		names = append(names, fmt.Sprintf("%q", console.Line(name)))
	}
	text := strings.Join(names, ", ")
	if len(all) > most {
		text += fmt.Sprintf(" and %d more", len(all)-most)
	}
	return text
}

// underOthers says under which other names a host has the gateway, and how to remove the first one; "" if there are none.
func (o *connectOptions) underOthers(ctx context.Context, h hostconfig.Host, f *hostconfig.File) string {
	others := slices.DeleteFunc(h.Gateways(f.Data, leadsToGateway(ctx)), func(name string) bool { return name == o.name })
	if len(others) == 0 {
		return ""
	}
	other := *o
	other.name = others[0]
	return fmt.Sprintf("%s has the gateway as %s: gateway disconnect %s%s", h.Title, quotedNames(others), h.Name, other.place())
}

// leadsToGateway returns a function that reports whether a URL is that of a gateway which the user runs. It looks for them
// at its first call.
func leadsToGateway(ctx context.Context) func(url string) bool {
	running := sync.OnceValue(func() servedFunc { return servedFor(ctx, "") })
	return func(url string) bool {
		gateway, _ := running()(url)
		return gateway != ""
	}
}

// keyHint prints the header that an entry with a URL needs if the gateway requires or may require a key, because connect does not know
// the key.
func keyHint(out io.Writer, h hostconfig.Host, e hostconfig.Entry, authenticates answer) {
	if e.URL == "" || authenticates == no {
		return
	}
	about := "If that gateway requires an API key"
	if authenticates == yes {
		about = "That gateway requires credentials: if you have an API key"
	}
	folded(out, "%s, add this to the entry, with your key:\n  %s\n", about, h.KeyHeader())
}
