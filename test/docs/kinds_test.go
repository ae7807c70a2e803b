package docs

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kinds are the words that may stand after a fence, each with what is checked of such a block by itself. What is run is checked by the walk.
var kinds = map[string]func(*testing.T, block){
	"yaml":    configuration,
	"json":    oneJSON,
	"jsonl":   manyJSON,
	"cel":     condition,
	"promql":  nothing, // deploy/test evaluates queries against what gateways expose
	"sh":      nothing,
	"console": nothing,
	"text":    reading,
}

// TestBlocks looks at every block of every document.
func TestBlocks(t *testing.T) {
	for _, doc := range documents(t) {
		for _, b := range doc.blocks {
			check, known := kinds[b.kind]
			switch {
			case b.kind == "":
				t.Errorf("%s: the block has no word after its fence; without one it is not known what a reader does with it", b.place)
			case !known:
				t.Errorf("%s: nothing checks blocks of the kind %q; write a check for it into kinds", b.place, b.kind)
			case b.rest != "" && !slices.Contains([]string{"yaml", "json"}, b.kind):
				t.Errorf("%s: %q has no meaning after the word %s", b.place, b.rest, b.kind)
			default:
				t.Run(b.place, func(t *testing.T) { check(t, b) })
			}
		}
	}
}

func nothing(*testing.T, block) {}

// reading is for nothing but that; commands in it would not be run.
func reading(t *testing.T, b block) {
	if strings.HasPrefix(b.text, "$ ") {
		t.Error("shows a command; it is run in a block with the word console")
	}
}

func oneJSON(t *testing.T, b block) {
	if values(t, b) != 1 {
		t.Errorf("is not one JSON value; several stand in a block with the word jsonl")
		return
	}
	switch {
	case servers(b.text) != nil:
		imported(t, b)
	case hostWords.MatchString(b.text):
		t.Errorf("has the words of a host's file, but no servers under any of %v", serverKeys)
	}
}

var hostWords = regexp.MustCompile(`"(command|url|serverUrl)":\s*"`)

func manyJSON(t *testing.T, b block) { values(t, b) }

// values counts the JSON values of a block.
func values(t *testing.T, b block) (n int) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(b.text))
	for {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("is no JSON: %v", err)
		}
		n++
	}
}
