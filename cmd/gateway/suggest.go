package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcpgateway/internal/plaintext"
)

// didYouMean suggests the known word that a wrong one is near to.
func didYouMean(word string, known []string) string {
	if near := plaintext.Nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// didYouMeanOne suggests the names of items that a wrong one is near to.
func didYouMeanOne(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// verbs are the verbs of a command that its help shows, and their other names.
func verbs(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	return names
}

// otherWords are words for which people look for a verb.
var otherWords = map[string]string{
	"serve": "run", "server": "run", "start": "run", "rm": "remove", "delete": "remove", "ls": "list", "validate": "check", "doctor": "check", "test": "check",
	"ps": "status", "restart": "reload",
}

// didYouMeanVerb suggests the verb of a command that a wrong word is near to, or stands for.
func didYouMeanVerb(cmd *cobra.Command, word string) string {
	if cmd.HasParent() {
		return didYouMean(word, verbs(cmd))
	}
	if verb := otherWords[word]; verb != "" {
		return fmt.Sprintf("; did you mean %q?", verb)
	}
	if word == "stop" {
		return "; Ctrl-C or SIGTERM ends \"gateway run\", whose process \"gateway status\" names"
	}
	return didYouMean(word, verbs(cmd))
}

// unknownFlag is the error of a flag that cannot be parsed; for an unknown one it suggests a known one. After an unknown
// verb the flag is that of another verb, and the error is about the verb.
func unknownFlag(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		if wrong := cmd.ValidateArgs(words); wrong != nil {
			return wrong
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		switch f := invalid.GetFlag(); f.Value.Type() {
		case "duration":
			return usageError{fmt.Errorf("--%s %s: must be a number with a unit, such as 5s or 2m", f.Name, invalid.GetValue())}
		case "bool":
			return usageError{fmt.Errorf("--%s=%s: must be true or false; --%s alone means true", f.Name, invalid.GetValue(), f.Name)}
		}
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return usageError{err}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	name := strings.TrimLeft(unknown.GetSpecifiedName(), "-")
	near := plaintext.Nearest(name, known)
	if near == "" {
		return usageError{err}
	}
	return usageError{fmt.Errorf("%w; did you mean --%s?", err, near)}
}
