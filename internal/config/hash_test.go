package config

import (
	"regexp"
	"testing"
)

func TestHash(t *testing.T) {
	const base = "{command: node, args: [a, b], env: {A: '1', B: '2'}}"
	hash := func(t *testing.T, name, text string) string {
		return mustParse(t, "upstreams:\n  "+name+": "+text+"\n").Upstreams[0].Hash()
	}
	want := hash(t, "a", base)
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(want) {
		t.Errorf("got %s", want)
	}

	same := map[string]string{
		"order of keys":       "{env: {B: '2', A: '1'}, args: [a, b], command: node}",
		"defaults written":    "{command: node, args: [a, b], env: {A: '1', B: '2'}, timeout: 1m, transport: stdio, disabled: false, tools: {allow: ['*']}}",
		"the words of hosts":  "{type: local, command: node, args: [a, b], env: {A: '1', B: '2'}, enabled: true}",
		"expanded all values": "{command: '${X:-node}', args: [a, b], env: {A: '${X:-1}', B: '2'}}",
	}
	for name, text := range same {
		t.Run("same/"+name, func(t *testing.T) {
			if got := hash(t, "a", text); got != want {
				t.Error("the hash differs")
			}
		})
	}

	seen := map[string]string{want: "base", hash(t, "b", base): "another name"}
	if len(seen) != 2 {
		t.Error("the hash does not depend on the name")
	}
	different := map[string]string{
		"secret":           "{command: node, args: [a, b], env: {A: '1', B: '3'}}",
		"moved in a map":   "{command: node, args: [a, b], env: {A: '12', B: ''}}",
		"moved in a list":  "{command: node, args: [ab, ''], env: {A: '1', B: '2'}}",
		"one argument":     "{command: node, args: [ab], env: {A: '1', B: '2'}}",
		"between fields":   "{command: nodea, args: [b], env: {A: '1', B: '2'}}",
		"prefix":           "{command: node, args: [a, b], env: {A: '1', B: '2'}, prefix: x}",
		"empty prefix":     "{command: node, args: [a, b], env: {A: '1', B: '2'}, prefix: ''}",
		"no tools allowed": "{command: node, args: [a, b], env: {A: '1', B: '2'}, tools: {allow: []}}",
		"prompts denied":   "{command: node, args: [a, b], env: {A: '1', B: '2'}, prompts: {deny: [x]}}",
		"resources denied": "{command: node, args: [a, b], env: {A: '1', B: '2'}, resources: {deny: ['x:y']}}",
		"hidden tool":      "{command: node, args: [a, b], env: {A: '1', B: '2'}, tools: {override: {x: {hidden: true}}}}",
		"another one":      "{command: node, args: [a, b], env: {A: '1', B: '2'}, tools: {override: {y: {hidden: true}}}}",
		"conformance":      "{command: node, args: [a, b], env: {A: '1', B: '2'}, conformance: off}",
		"sanitize":         "{command: node, args: [a, b], env: {A: '1', B: '2'}, sanitize: [ansi]}",
		"root":             "{command: node, args: [a, b], env: {A: '1', B: '2'}, roots: ['file:///a']}",
		"root's name":      "{command: node, args: [a, b], env: {A: '1', B: '2'}, roots: [{uri: 'file:///a', name: x}]}",
		"timeout":          "{command: node, args: [a, b], env: {A: '1', B: '2'}, timeout: 61s}",
		"required":         "{command: node, args: [a, b], env: {A: '1', B: '2'}, required: true}",
		"queue":            "{command: node, args: [a, b], env: {A: '1', B: '2'}, max_queue: 3}",
		"url":              "{url: 'http://node'}",
		"header":           "{url: 'http://node', headers: {A: b}}",
		"header's value":   "{url: 'http://node', headers: {A: c}}",
	}
	for name, text := range different {
		t.Run("different/"+name, func(t *testing.T) {
			got := hash(t, "a", text)
			if other, ok := seen[got]; ok {
				t.Errorf("the same hash as %s", other)
			}
			seen[got] = name
		})
	}
}
