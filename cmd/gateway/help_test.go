package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mcpgateway/internal/console"
)

// Every help text fits a terminal of 80 columns, and shows examples that are commands of this program.
func TestHelp(t *testing.T) {
	eachVerb(newRoot(), func(cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		var out, errs bytes.Buffer
		if status := run(args, strings.NewReader(""), &out, &errs); status != exitDone || errs.Len() > 0 {
			t.Errorf("%q: status %d: %s", args, status, errs.String())
		}
		for line := range strings.Lines(out.String()) {
			if w := console.Width(strings.TrimRight(line, "\n")); w > helpColumns {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), w, line)
			}
		}
		if cmd.Hidden {
			return
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			words := strings.Fields(line)
			if len(words) == 0 || strings.HasPrefix(words[0], "#") {
				continue
			}
			if !strings.HasPrefix(line, "  ") || !strings.Contains(line, "gateway") {
				t.Errorf("%s: the example %q is not indented, or no command of this program", cmd.CommandPath(), line)
			}
		}
	})
}

func eachVerb(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, c := range cmd.Commands() {
		eachVerb(c, do)
	}
}
