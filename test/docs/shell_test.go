package docs

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// step is one command of a block, with its expected outcome.
type step struct {
	line
	status   int      // expected exit status
	printed  []string // expected output in a console block; nil for any
	first    int      // first line of printed in the document, from 0
	compared bool     // whether the output is compared
}

var (
	statusWord = regexp.MustCompile(`#.*\bexit status (\d+)`)
	hereText   = regexp.MustCompile(`<<-?\s*['"]?(\w+)['"]?`)
)

// steps parses a shell block.
func steps(t *testing.T, b block) (all []step) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(b.text, "\n"), "\n")
	file, first, _ := strings.Cut(b.place, ":")
	number, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(lines); {
		place := fmt.Sprintf("%s:%d", file, number+i)
		text := lines[i]
		i++
		if b.kind == "console" {
			command, is := strings.CutPrefix(text, "$ ")
			if !is {
				if len(all) == 0 {
					t.Fatalf("%s: a console block begins with a command, after `$ `", place)
				}
				all[len(all)-1].printed = append(all[len(all)-1].printed, text)
				continue
			}
			text = command
		}
		if strings.TrimSpace(text) == "" || strings.HasPrefix(strings.TrimSpace(text), "#") {
			continue
		}
		for i < len(lines) && !whole(text) {
			text += "\n" + strings.TrimPrefix(lines[i], "> ")
			i++
		}
		if !whole(text) {
			t.Fatalf("%s: the shell waits for more after\n%s", place, text)
		}
		s := step{line: line{place, text}, first: number - 1 + i, compared: b.kind == "console"}
		if m := statusWord.FindStringSubmatch(text); m != nil {
			s.status, _ = strconv.Atoi(m[1])
		}
		all = append(all, s)
	}
	return all
}

// whole reports whether the text is a complete shell command.
func whole(text string) bool {
	if strings.HasSuffix(text, "\\") {
		return false
	}
	if m := hereText.FindStringSubmatch(text); m != nil && !regexp.MustCompile(`(?m)\n\t*`+m[1]+`$`).MatchString(text) {
		return false
	}
	return exec.Command("sh", "-n", "-c", text).Run() == nil
}

// matches compares the output of a command with the output in a console block.
func matches(want []string, got string) bool {
	for len(want) > 0 && strings.TrimSpace(want[len(want)-1]) == "" { // blank lines before the next command
		want = want[:len(want)-1]
	}
	var b strings.Builder
	b.WriteString(`^`)
	for _, w := range want {
		if strings.TrimSpace(w) == "…" {
			b.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		parts := strings.Split(strings.TrimRight(w, " "), "…")
		for i, p := range parts {
			parts[i] = regexp.QuoteMeta(p)
		}
		b.WriteString(strings.Join(parts, `[^\n]*`) + ` *\n`)
	}
	b.WriteString(`\n*$`)
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	return regexp.MustCompile(b.String()).MatchString(got)
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want, got string
		is        bool
	}{
		{"a\nb", "a\nb\n", true},
		{"a\nb", "a\nb", true},
		{"a", "a\nb\n", false},
		{"a … c", "a b c\n", true},
		{"a … c", "a b\n", false},
		{"a\n…", "a\nb\nc\n", true},
		{"…\nc", "a\nb\nc\n", true},
		{"…\nd", "a\nb\nc\n", false},
		{"a.c", "abc\n", false},
		{"a\n", "a\n", true},
		{"", "", true},
		{"", "a\n", false},
	} {
		if got := matches(strings.Split(c.want, "\n"), c.got); got != c.is {
			t.Errorf("%q shows %q: %v, want %v", c.want, c.got, got, c.is)
		}
	}
}
