package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/ruleset"
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
	after, err := e.parse()
	if err != nil && len(e.oldErrors(err)) == 0 {
		folded(cmd.ErrOrStderr(), "nothing is changed: without %s, %s would have the errors below. Set disabled: true for %[1]s, correct these lines, then remove %[1]s:\n", name, e.name)
		return errorsBefore(err, e.name, before, string(e.Bytes()))
	}
	if err := e.save(cmd.ErrOrStderr(), config.NameOf(key)); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	folded(out, "%s is removed from %s.\n", name, e.name)
	if left := e.globsLeft(after); len(left) > 0 {
		folded(out, "These globs were for %s and match nothing now:\n  %s\n", name, strings.Join(left, "\n  "))
	}
	e.tellUnused(out, before)
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

// errorsBefore returns the errors of a file from which an upstream was removed as errors of the file before: with the lines there, and
// without suggestions, which would take the name of the upstream for a misspelled one.
func errorsBefore(err error, file, before, after string) error {
	errs, ok := errors.AsType[config.Errors](err)
	if !ok {
		return err
	}
	old, lines := strings.Split(before, "\n"), strings.Split(after, "\n")
	same := 0 // lines at the end
	for same < min(len(old), len(lines)) && old[len(old)-1-same] == lines[len(lines)-1-same] {
		same++
	}
	moved := make(config.Errors, len(errs))
	for i, e := range errs {
		at := *e
		at.Msg, _, _ = strings.Cut(at.Msg, "; did you mean ")
		if at.File == file && at.Line > len(lines)-same {
			at.Line += len(old) - len(lines)
		}
		moved[i] = &at
	}
	return moved
}

// globsLeft returns the globs of rules and profiles that could match an item before the edit and cannot any more, with their places.
func (e *edited) globsLeft(after *config.Config) (left []string) {
	if e.before == nil {
		return nil
	}
	old, err := ruleset.New(e.before)
	if err != nil {
		return nil
	}
	now, err := ruleset.New(after)
	if err != nil {
		return nil
	}
	had := old.UnreachableGlobs()
	for _, g := range now.UnreachableGlobs() {
		if slices.ContainsFunc(had, func(h catalog.UnusedGlob) bool { return h.Path() == g.Path() && h.Text == g.Text }) {
			continue
		}
		if g.Profile != "" { // of no rule
			g.File, g.Line = e.name, e.lineOf(g.Path())
		}
		text := fmt.Sprintf("%s %q", g.Path(), g.Text)
		if g.Line > 0 {
			text = fmt.Sprintf("%s:%d: %s", g.File, g.Line, text)
		}
		left = append(left, text)
	}
	return left
}

// lineOf returns the line of a path such as profiles.coding.tools.allow[1], 0 if the file spells it in another way.
func (e *edited) lineOf(path string) int {
	keys, item, _ := strings.Cut(strings.TrimSuffix(path, "]"), "[")
	n := e.Root()
	for key := range strings.SplitSeq(keys, ".") {
		if n = configfile.Child(n, key); n == nil {
			return 0
		}
	}
	if i, err := strconv.Atoi(item); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
		return n.Content[i].Line
	}
	return n.Line
}

var variableRef = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)`)

// tellUnused names the variables of the env_file to which only the text before referred.
func (e *edited) tellUnused(out io.Writer, before string) {
	if left := e.unusedSince(before); len(left) > 0 {
		folded(out, "%s still has values that nothing refers to:\n  %s\n", e.env.Name, strings.Join(left, "\n  "))
	}
}

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
