package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The keys and rules that differ are named. Upstreams, the order of rules and the place of a rule are no
// differences of a rule.
func TestChanges(t *testing.T) {
	const upstreams = "upstreams: {files: {command: files}}\n"
	const before = upstreams + `
auth: {mode: api-key, api_keys: [{id: a, sha256: 2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683}]}
policy:
  rules:
    - {name: all, effect: allow}
    - {name: writes, effect: deny, what: {tools: [files__write_file]}}
    - {name: edits, effect: deny, what: {tools: [files__edit_file]}}
profiles:
  short: {names: short, policy: {rules: [{name: reads, effect: confirm, what: {tools: ["files__read*"]}}]}}
`
	const now = `
upstreams: {files: {command: other}, git: {command: git}}
auth: {mode: api-key, api_keys: [{id: a, sha256: 2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683, groups: [g]}]}
policy:
  default: allow
  rules:
    - {name: reads, effect: confirm, what: {tools: ["files__read*"]}}
    - {name: edits, effect: confirm, what: {tools: [files__edit_file]}}
    - {name: all, effect: allow}
    - {name: pushes, effect: deny, what: {tools: [git__push]}}
profiles:
  short: {names: short}
telemetry: {slow: 1s}
asks: {label: false}
`
	old, next := parsed(t, before), parsed(t, now)
	wantKeys := []string{"auth.api_keys", "profiles", "policy.default", "policy.rules", "asks.label", "telemetry.slow"}
	if diff := cmp.Diff(wantKeys, next.ChangedKeys(old)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	wantRules := RuleChanges{Added: []string{"pushes"}, Removed: []string{"writes"}, Changed: []string{"reads", "edits"}}
	if diff := cmp.Diff(wantRules, next.ChangedRules(old)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	same := parsed(t, "\n\n"+before)
	same.Upstreams = nil
	if keys, rules := same.ChangedKeys(old), same.ChangedRules(old); keys != nil || !cmp.Equal(rules, RuleChanges{}) {
		t.Errorf("differences of nothing: %q, %+v", keys, rules)
	}
	tool := parsed(t, before)
	tool.Profiles[0].ToolFiles = []ToolFile{{File: "tool.star", Source: "name = 'x'"}}
	if diff := cmp.Diff([]string{"profiles"}, tool.ChangedKeys(old)); diff != "" {
		t.Errorf("with another tool file (-want +got):\n%s", diff)
	}
}
