package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
)

func newRemove() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove an upstream from gateway.yaml",
		Long: "remove removes an upstream from the gateway.yaml that run would use, with the\n" +
			"comment right above it. Everything else in the file stays as it is. To leave an\n" +
			"upstream out and keep its entry, set disabled: true instead.",
		Example: "  gateway remove files\n  gateway remove files -c other.yaml",
		Args:    oneArg("NAME"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return o.upstreamNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.remove(cmd, args[0]) },
	}
	o.editFlag(cmd)
	return cmd
}

func (o *runOptions) remove(cmd *cobra.Command, name string) error {
	e, err := o.edit(cmd.Context())
	if err != nil {
		return err
	}
	defer e.close()
	key := e.keyOf(name)
	if key == "" {
		var names []string
		if e.before != nil {
			names = namesOf(e.before)
		}
		return fmt.Errorf("there is no upstream %s in %s%s", configfile.Quote(name), e.name, didYouMean(name, names))
	}
	if lines := e.linesOf(config.NameOf(key)); len(lines) > 1 {
		return fmt.Errorf("nothing is changed: %s has more than one upstream %s, at the lines %s; remove one by hand", e.name, name, strings.Join(lines, ", "))
	}
	before := string(e.Bytes())
	if bad := e.Remove(e.section, key); bad != nil {
		return config.Errors{bad}
	}
	if err := e.save(cmd.ErrOrStderr(), config.NameOf(key)); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s is removed from %s.\n", name, e.name)
	if left := e.unusedSince(before); len(left) > 0 {
		fmt.Fprintf(out, "%s still has values that nothing refers to:\n  %s\n", e.env.Name, strings.Join(left, "\n  "))
	}
	if left := grantsLeft(cmd.Context(), e.before, config.NameOf(key), withConfig(o.file)); left != "" {
		folded(out, "%s\n", left)
	}
	e.tellApplied(out)
	return nil
}

// linesOf returns the lines of the upstreams of a name.
func (e *edited) linesOf(name string) (lines []string) {
	if all := configfile.Child(e.Root(), e.section); all != nil && all.Kind == yaml.MappingNode {
		for i := 0; i < len(all.Content); i += 2 {
			if key := all.Content[i]; config.NameOf(key.Value) == name {
				lines = append(lines, strconv.Itoa(key.Line))
			}
		}
	}
	return lines
}

var variableRef = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)`)

// unusedSince returns the variables of the env_file to which only the text before referred.
func (e *edited) unusedSince(before string) []string {
	var names []string
	seen := make(map[string]bool)
	for _, m := range variableRef.FindAllStringSubmatch(before, -1) {
		if name := m[1]; !seen[name] && sets(e.values, name) && !uses(string(e.Bytes()), name) {
			names = append(names, name)
		}
		seen[m[1]] = true
	}
	return names
}

// assigned matches a line of the env_file that assigns a value to a variable and takes no further lines.
func assigned(variable string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*(?:export )?` + regexp.QuoteMeta(variable) + `[ \t]*=(?:'[^'\n]*'|"[^"\\\n]*"|[^'"\n]*)\n`)
}
