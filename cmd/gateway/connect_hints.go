package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"mcpgateway/internal/console"
	"mcpgateway/internal/hostconfig"
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

// othersHint says which servers the host has beside the gateway, and how to put them behind it.
func (o *connectOptions) othersHint(out io.Writer, h hostconfig.Host, f *hostconfig.File, e hostconfig.Entry, others []string) {
	const most = 8
	if len(others) == 0 {
		return
	}
	var names []string
	for _, name := range others[:min(len(others), most)] {
		names = append(names, fmt.Sprintf("%q", console.Line(name)))
	}
	more := ""
	if len(others) > most {
		more = fmt.Sprintf(" and %d more", len(others)-most)
	}
	config := "" // that of a gateway with a URL is not known
	if e.URL == "" {
		config = withConfig(o.file)
	}
	folded(out, "%s has other servers: %s%s. To put them behind the gateway, run gateway import --merge%s %s, then remove them from %s: the tools of a server in both places appear twice.\n",
		h.Title, strings.Join(names, ", "), more, config, shellWord(f.Name), tilde(f.Name))
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
