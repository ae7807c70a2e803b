package client

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

// node is a client of the TypeScript SDK. A script in test/clients runs it; plan.mjs documents input and output.
type node struct {
	name, script, mode string
	revision           string // proposed to the server; "" for the SDK's newest
	answers, declines  bool
}

// V1 returns the TypeScript SDK's first-generation client. It supports the legacy era only and rejects messages that its schemas do not allow.
func V1() Client { return node{name: "v1", script: "clients/v1.mjs"} }

// V1At returns V1 with an older revision of the protocol. Its schemas do not depend on the revision.
func V1At(revision string) Client {
	return node{name: "v1 " + revision, script: "clients/v1.mjs", revision: revision}
}

// V2 returns the TypeScript SDK's second-generation client, pinned to an era.
func V2(era string) Client { return node{name: "v2 " + era, script: "clients/v2.mjs", mode: era} }

func (n node) Name() string { return n.name }

func (n node) Era() string {
	if n.mode == Modern {
		return Modern
	}
	return Legacy
}

func (n node) Can(method string) bool { return can(method, n.Era()) }

func (n node) Run(t testing.TB, target Target, steps []Step) Transcript {
	t.Helper()
	plan := mustJSON(map[string]any{"target": target, "mode": n.mode, "revision": n.revision, "answers": n.answers, "declines": n.declines, "steps": append([]Step{}, steps...)}) // never null
	ctx, cancel := context.WithTimeout(t.Context(), runWithin)
	defer cancel()
	stdout, stderr, err := process.Run(ctx, t, string(plan), process.Options{Args: rig.Node(t, n.script)})
	if err != nil {
		t.Fatalf("client %s: %v\n%s%s", n.name, err, stdout, stderr)
	}
	var outcomes []Outcome
	for line := range strings.Lines(stdout) {
		var outcome Outcome
		if err := json.Unmarshal([]byte(line), &outcome); err != nil {
			t.Fatalf("client %s printed %q: %v", n.name, line, err)
		}
		outcomes = append(outcomes, outcome)
	}
	if len(outcomes) != len(steps)+1 {
		t.Fatalf("client %s: %d steps, %d lines\n%s%s", n.name, len(steps), len(outcomes), stdout, stderr)
	}
	return Transcript{Connect: &outcomes[0], Steps: outcomes[1:]}
}
