package docs

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"mcpgateway/test/internal/rig"
)

// TestCompletions compares the commands that load completions with those that the help of each shell has.
func TestCompletions(t *testing.T) {
	var page strings.Builder
	for _, b := range documents(t)["docs/install.md"].blocks {
		page.WriteString(b.text)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		help, err := exec.Command(rig.Binary(t), "completion", shell, "--help").Output()
		must(t, err)
		load := regexp.MustCompile(`(?m)^\s+((?:source <\()?gateway completion ` + shell + `(?:\)| \| .*))$`).FindSubmatch(help)
		if load == nil {
			t.Errorf("%s: the help has no command that loads completions", shell)
		} else if !strings.Contains(page.String(), string(load[1])) {
			t.Errorf("docs/install.md has no command %q", load[1])
		}
	}
	if zsh := "autoload -U compinit; compinit; source <(gateway completion zsh)"; !strings.Contains(page.String(), zsh) {
		t.Errorf("docs/install.md has no command %q: without compinit, zsh has no compdef", zsh)
	}
}
