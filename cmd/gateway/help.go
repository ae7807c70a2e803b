package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcpgateway/internal/console"
)

// helpColumns is the width of help texts, on every terminal.
const helpColumns = 80

// usageTemplate is that of cobra, with flags that are wrapped.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{wrappedFlags .LocalFlags | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Global Flags:
{{wrappedFlags .InheritedFlags | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} [command] --help" for more information about a command.{{end}}
`

// helpTemplate is that of cobra, with text that is wrapped.
const helpTemplate = `{{with (or .Long .Short)}}{{wrappedText .}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

func init() {
	cobra.AddTemplateFunc("wrappedFlags", wrappedFlags)
	cobra.AddTemplateFunc("wrappedText", wrappedText)
}

// wrappedText wraps paragraphs. Lines that are indented stay as they are.
func wrappedText(text string) string {
	var out, paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, console.Wrap(strings.Join(paragraph, " "), "", helpColumns))
			paragraph = nil
		}
	}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, " \t\n")
		if line != "" && line[0] != ' ' && line[0] != '\t' {
			paragraph = append(paragraph, line)
			continue
		}
		flush()
		out = append(out, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// flagLine is a flag in the usage of pflag: its names with the value, and its description.
var flagLine = regexp.MustCompile(`^( {2,6}(?:-\w, )?--\S+(?: [^ ]+)?) {2,}(.*)$`)

// maxFlags is the width of the column of flags. A longer flag has its description on the next line.
const maxFlags = 22

// wrappedFlags wraps the descriptions of flags.
func wrappedFlags(flags *pflag.FlagSet) string {
	var names, texts []string
	width := 0
	for line := range strings.Lines(flags.FlagUsages()) {
		m := flagLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			m = []string{"", "", strings.TrimSpace(line)}
		}
		names, texts = append(names, m[1]), append(texts, m[2])
		width = max(width, min(len(m[1])+3, maxFlags))
	}
	var out strings.Builder
	for i, name := range names {
		indent := strings.Repeat(" ", width)
		text := console.Wrap(texts[i], indent, helpColumns)
		if len(name)+2 <= width {
			text = name + strings.TrimPrefix(text, indent[:len(name)])
		} else {
			text = name + "\n" + text
		}
		out.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return out.String()
}
