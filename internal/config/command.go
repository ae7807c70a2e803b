package config

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mcpgateway/internal/configfile"
)

// checkCommand refuses a command line, since no shell splits it. A command is a command line if no such
// program exists and its first word is a program. If neither exists, the start of the program will
// report it.
func (e *entry) checkCommand(m *mapping) {
	words := splitWords(e.Command)
	if e.Disabled || len(words) < 2 || e.isProgram(m, e.Command) || !e.isProgram(m, words[0]) {
		return
	}
	// The error shows the text of the file, since its expansion may be secret.
	written := splitWords(m.given["command"].Value.Value)
	if len(written) < 2 || slices.ContainsFunc(written, maySecret) {
		m.errorf("command", "has a program and its arguments together, and no shell splits them; put the arguments into args")
		return
	}
	quoted := make([]string, len(written)-1)
	for i, w := range written[1:] {
		quoted[i] = configfile.Quote(w)
	}
	more := ""
	if len(e.Args) > 0 {
		more = ", before the existing ones"
	}
	m.errorf("command", "there is no program with the name %s, and no shell splits it; put the arguments into args: command: %s, args: [%s]%s",
		configfile.Quote(m.given["command"].Value.Value), plainOrShown(written[0]), strings.Join(quoted, ", "), more)
}

// maySecret reports whether a word of a command line may be a secret, or the flag or name of one.
func maySecret(word string) bool {
	name, _, assigned := strings.Cut(word, "=")
	return HasToken(word) || (assigned || strings.HasPrefix(word, "-")) && IsSecretName(name) || strings.Contains(word, "://") && !plainURL.MatchString(word)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_+/=.~%-]+$`)

// plainOrShown is a word as it can be written in YAML and in JSON.
func plainOrShown(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return configfile.Quote(word)
}

// isProgram reports whether a command names an existing file.
func (e *entry) isProgram(m *mapping, command string) bool {
	isFile := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && !info.IsDir()
	}
	if strings.ContainsAny(command, string(filepath.Separator)+"/") {
		return isFile(inFolder(inFolder(m.d.dir, e.Cwd), command))
	}
	own := e.Env["PATH"].Reveal()
	path, _ := m.d.env("PATH")
	return slices.ContainsFunc(filepath.SplitList(cmp.Or(own, path)), func(dir string) bool { return isFile(filepath.Join(dir, command)) })
}

// splitWords splits a line at spaces outside quotes, as a shell does.
func splitWords(line string) []string {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, inWord = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 { // an apostrophe
		return strings.Fields(line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}
