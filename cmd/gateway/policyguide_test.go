package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/policy"
)

// guideFile is the guide to policy. Its recipes are a block of YAML each, which is
// policy.yaml, and a block of text with commands and what they print. A block of
// text that begins with the name of a file in a comment is that file.
const guideFile = "../../docs/policy.md"

var (
	guideBlock   = regexp.MustCompile("(?ms)^```(yaml|text)\n(.*?)^```$")
	guideOther   = regexp.MustCompile(`^# (\S+\.yaml)\n`)
	guideRecipe  = regexp.MustCompile(`(?m)^### \d+\. .*$`)
	guideCommand = regexp.MustCompile(`(?m)^\$ (.*)\n((?:[^$\n].*\n|\n)*)`)
)

// TestPolicyGuide loads every recipe of the guide, runs its commands and compares
// what they print with what the guide says. With UPDATE_SCRIPTS it writes that.
func TestPolicyGuide(t *testing.T) {
	raw, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	guide := string(raw)
	recipes := guideRecipe.FindAllStringIndex(guide, -1)
	if len(recipes) < 10 {
		t.Fatalf("%d recipes were found", len(recipes))
	}
	want := make([]string, 0, len(recipes)+1)
	want = append(want, guide[:recipes[0][0]])
	for i, at := range recipes {
		end := len(guide)
		if i+1 < len(recipes) {
			end = recipes[i+1][0]
		}
		recipe := guide[at[0]:end]
		t.Run(strings.TrimPrefix(guide[at[0]:at[1]], "### "), func(t *testing.T) { recipe = runRecipe(t, recipe) })
		want = append(want, recipe)
	}
	now := strings.Join(want, "")
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(guideFile, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(strings.Split(guide, "\n"), strings.Split(now, "\n")); diff != "" {
		t.Errorf("%s (-written, +printed):\n%s", guideFile, diff)
	}
}

// runRecipe returns a recipe with what its commands print now.
func runRecipe(t *testing.T, recipe string) string {
	dir := t.TempDir()
	env := append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_STATE_HOME="+dir)
	run := func(line string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	loaded := false
	return guideBlock.ReplaceAllStringFunc(recipe, func(block string) string {
		part := guideBlock.FindStringSubmatch(block)
		name := "policy.yaml"
		if m := guideOther.FindStringSubmatch(part[2]); m != nil {
			part[1], name = "yaml", m[1]
		}
		if part[1] == "yaml" {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(part[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			if name != "policy.yaml" {
				return block
			}
			loaded = true
			if out := run("gateway check --offline -c policy.yaml"); !strings.Contains(out, "policy.yaml: no errors, no warnings") {
				t.Errorf("gateway check has remarks:\n%s", out)
			}
			return block
		}
		commands := guideCommand.FindAllStringSubmatch(part[2], -1)
		if len(commands) == 0 {
			return block
		}
		if !loaded {
			t.Error("commands come before the configuration")
		}
		var b strings.Builder
		b.WriteString("```text\n")
		for i, c := range commands {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString("$ " + c[1] + "\n" + run(c[1]))
		}
		return b.String() + "```"
	})
}

// TestPolicyGuideConditions compiles the conditions that the guide shows in a table.
func TestPolicyGuideConditions(t *testing.T) {
	raw, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "| condition | holds for |\n|---|---|\n")
	n := 0
	for line := range strings.Lines(table) {
		m := regexp.MustCompile("^\\| `(.+?)` \\|").FindStringSubmatch(line)
		if m == nil {
			break
		}
		n++
		if _, faults := policy.NewCondition(strings.ReplaceAll(m[1], `\|`, "|")); faults != nil {
			t.Errorf("%s: %v", m[1], faults)
		}
	}
	if n < 5 {
		t.Errorf("%d conditions were found", n)
	}
}
