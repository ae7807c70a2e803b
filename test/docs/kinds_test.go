package docs

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/hostimport"
	"mcpgateway/internal/metatool"
	"mcpgateway/internal/script"
	"mcpgateway/internal/wire"
)

// kinds are the words after a fence, each with the check of a single block. The walk runs commands.
var kinds = map[string]func(*testing.T, block){
	"yaml":     configuration,
	"json":     oneJSON,
	"toml":     codexTOML,
	"jsonl":    manyJSON,
	"cel":      condition,
	"starlark": starlark,
	"promql":   nothing, // deploy/test checks queries against the metrics of gateways
	"sh":       nothing,
	"console":  nothing,
	"text":     reading,
}

// TestBlocks checks every block of every document.
func TestBlocks(t *testing.T) {
	for _, doc := range documents(t) {
		for _, b := range doc.blocks {
			check, known := kinds[b.kind]
			switch {
			case b.kind == "":
				t.Errorf("%s: the block has no word after its fence; the word says how to check the block", b.place)
			case !known:
				t.Errorf("%s: no check for blocks of the kind %q; add one to kinds", b.place, b.kind)
			case b.rest != "" && !slices.Contains([]string{"yaml", "json"}, b.kind):
				t.Errorf("%s: %q has no meaning after the word %s", b.place, b.rest, b.kind)
			default:
				t.Run(b.place, func(t *testing.T) { check(t, b) })
			}
		}
	}
}

// starlark checks a script, or a tool with its tests.
func starlark(t *testing.T, b block) {
	if !strings.Contains(b.text, "def run(") {
		if _, err := script.Compile("script", b.text); err != nil {
			t.Errorf("%s: %v", b.place, err)
		}
		return
	}
	tool, err := script.LoadComposite("tool.star", b.text, metatool.Clock{})
	if err != nil {
		t.Fatalf("%s: %v", b.place, err)
	}
	limits := script.Limits{Steps: 1_000_000, Calls: 100, Parallel: 8, Time: time.Minute, Output: 1 << 16}
	if n, failed := tool.Test(t.Context(), limits, metatool.Clock{}, func(member string, value wire.Raw) error { return metatool.CheckComposite(tool, member, value) }); n == 0 || len(failed) > 0 {
		t.Errorf("%s: of %d tests %v failed", b.place, n, failed)
	}
}

// codexTOML checks that a block is a file of Codex that can be imported, without remarks.
func codexTOML(t *testing.T, b block) {
	im, err := hostimport.Options{Gateways: true}.Import(hostimport.File{Name: "config.toml", Data: []byte(b.text), Folder: "/home/me"})
	if err != nil || im.Upstreams != 1 || len(im.Warnings) > 0 {
		t.Errorf("the block cannot be imported: %v, %+v", err, im)
	}
}

func nothing(*testing.T, block) {}

// reading checks that a text block has no command, because it would not run.
func reading(t *testing.T, b block) {
	if strings.HasPrefix(b.text, "$ ") {
		t.Error("the block shows a command; use a console block, which is run")
	}
}

func oneJSON(t *testing.T, b block) {
	if values(t, b) != 1 {
		t.Errorf("the block is not one JSON value; use a jsonl block for several")
		return
	}
	switch {
	case servers(b.text) != nil:
		imported(t, b)
	case hostWords.MatchString(b.text):
		t.Errorf("the block looks like a host's file, but has no servers under any of %v", serverKeys)
	}
}

var hostWords = regexp.MustCompile(`"(command|url|serverUrl)":\s*"`)

func manyJSON(t *testing.T, b block) { values(t, b) }

// values returns the number of JSON values in a block.
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
			t.Fatalf("the block is not valid JSON: %v", err)
		}
		n++
	}
}
