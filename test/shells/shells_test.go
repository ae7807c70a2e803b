package shells

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/test/internal/rig"
)

// Each shell sources its completions without a word, and then completes verbs; zsh completes only for a person at a terminal, so there the test
// asks whether the completion is registered. Names of profiles come from the gateway.yaml of the folder.
func TestCompletions(t *testing.T) {
	root, err := filepath.Abs("../../.cache/shells")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err != nil {
		t.Fatal("zsh and fish are not installed: run test/install.sh")
	}
	libraries := one(t, root, "usr/lib/*-linux-gnu*")
	for _, shell := range []struct {
		name, want string
		command    []string
	}{
		{"bash", "connect", []string{
			"bash", "--norc", "-c", `source <(gateway completion bash) && complete -p gateway >/dev/null
compopt() { :; }
_get_comp_words_by_ref() { cur=conn prev=gateway words=(gateway conn) cword=1; }
COMP_LINE="gateway conn" COMP_POINT=12 __start_gateway; echo "${COMPREPLY[@]}"`,
		}},
		{"bash, a profile", "reading", []string{
			"bash", "--norc", "-c", `source <(gateway completion bash)
compopt() { :; }
_get_comp_words_by_ref() { cur=re prev=--profile words=(gateway list --profile re) cword=3; }
COMP_LINE="gateway list --profile re" COMP_POINT=25 __start_gateway; echo "${COMPREPLY[@]}"`,
		}},
		{"zsh", "_gateway", []string{
			one(t, root, "bin/zsh"), "-f", "-c", `module_path=($1/zsh/*(/)); fpath=($2 $2/**/*(/)); autoload -Uz compinit && compinit -u -D
source <(gateway completion zsh); echo $_comps[gateway]`, "zsh", libraries, one(t, root, "usr/share/zsh/functions"),
		}},
		{"fish", "connect\tAdd the gateway to a host", []string{
			one(t, root, "usr/bin/fish"), "--no-config", "-c", "gateway completion fish | source; complete -C 'gateway conn'",
		}},
		{"fish, a profile", "reading", []string{
			one(t, root, "usr/bin/fish"), "--no-config", "-c", "gateway completion fish | source; complete -C 'gateway list --profile re'",
		}},
	} {
		t.Run(shell.name, func(t *testing.T) {
			home := t.TempDir()
			if err := os.WriteFile(filepath.Join(home, "gateway.yaml"), []byte("upstreams: {files: {command: cat}}\nprofiles: {reading: {}, writing: {}}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(shell.command[0], shell.command[1:]...)
			cmd.Dir = home
			cmd.Env = []string{
				"HOME=" + home, "PATH=" + filepath.Dir(rig.Binary(t)) + ":" + os.Getenv("PATH"),
				"LD_LIBRARY_PATH=" + libraries, "XDG_DATA_DIRS=" + filepath.Join(root, "usr/share"), "LANG=C.UTF-8",
			}
			out, err := cmd.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != shell.want {
				t.Errorf("%v, and it prints\n%s\nwant %s", err, out, shell.want)
			}
		})
	}
}

// one is the only path that matches a pattern below a folder.
func one(t *testing.T, folder, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s below %s: %v, %v; run test/install.sh", pattern, folder, found, err)
	}
	return found[0]
}
