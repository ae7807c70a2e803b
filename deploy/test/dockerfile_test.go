package deploy

import (
	"encoding/json"
	"strings"
	"testing"
)

// stage is a part of a Dockerfile, from one FROM to the next.
type stage struct {
	from, as     string
	instructions []instruction
}

// instruction is a line of a Dockerfile with its continuation lines: its name
// (COPY), its flags (--from=build) by name, and the rest.
type instruction struct {
	name  string
	flags map[string]string
	rest  string
}

// words returns the arguments of both forms, JSON and plain.
func (i instruction) words(t *testing.T) []string {
	t.Helper()
	if strings.HasPrefix(i.rest, "[") {
		var words []string
		if err := json.Unmarshal([]byte(i.rest), &words); err != nil {
			t.Fatalf("%s %s: %v", i.name, i.rest, err)
		}
		return words
	}
	return strings.Fields(i.rest)
}

// readDockerfile parses the part of the language that the Dockerfiles of this
// repository use. Anything else fails the test.
func readDockerfile(t *testing.T, name string) []stage {
	t.Helper()
	var stages []stage
	pending := ""
	for _, line := range strings.Split(string(read(t, name)), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if before, more := strings.CutSuffix(line, `\`); more {
			pending += before
			continue
		}
		word, rest, _ := strings.Cut(pending+line, " ")
		pending = ""
		i := instruction{name: word, flags: map[string]string{}, rest: strings.TrimSpace(rest)}
		for strings.HasPrefix(i.rest, "--") {
			flag, after, _ := strings.Cut(i.rest, " ")
			key, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
			i.flags[key], i.rest = value, strings.TrimSpace(after)
		}
		switch {
		case i.name == "FROM":
			words := i.words(t)
			s := stage{from: words[0]}
			if len(words) == 3 && words[1] == "AS" {
				s.as = words[2]
			} else if len(words) != 1 {
				t.Fatalf("%s: FROM %s", name, i.rest)
			}
			stages = append(stages, s)
		case len(stages) == 0:
			t.Fatalf("%s: %s before the first FROM", name, i.name)
		default:
			last := &stages[len(stages)-1]
			last.instructions = append(last.instructions, i)
		}
	}
	if pending != "" || len(stages) == 0 {
		t.Fatalf("%s is empty or ends inside an instruction", name)
	}
	return stages
}

// all returns the instructions of one name.
func (s stage) all(name string) []instruction {
	var found []instruction
	for _, i := range s.instructions {
		if i.name == name {
			found = append(found, i)
		}
	}
	return found
}

// one returns the only instruction of its name.
func (s stage) one(t *testing.T, name string) instruction {
	t.Helper()
	found := s.all(name)
	if len(found) != 1 {
		t.Fatalf("%d instructions %s in the stage from %s, want 1", len(found), name, s.from)
	}
	return found[0]
}
