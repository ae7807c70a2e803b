package main

import (
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"mcpgateway/internal/search"
	"mcpgateway/internal/wire"
)

// set is tools and queries with the tools that they should find.
type set struct {
	name    string
	tools   []search.Tool
	queries []query
}

// query is a question with the ids of the tools that answer it.
type query struct {
	Text string   `json:"query"`
	By   string   `json:"by"`   // user or model: who would ask so
	Want []string `json:"want"` // all are wanted
	Any  []string `json:"any"`  // each of them answers the query
}

// half returns which half of a set a query belongs to.
func (q query) half() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(q.Text)) // never fails
	if h.Sum32()%2 == 0 {
		return "tune"
	}
	return "report"
}

// idOf returns the id of a tool in the labels of a set.
func idOf(upstream, tool string) string { return upstream + ":" + tool }

//go:embed queries.json
var queriesJSON []byte

// npmSet reads the gathered definitions and our queries.
func npmSet(dir string) (*set, error) {
	b, err := os.ReadFile(filepath.Join(dir, "definitions.json"))
	if err != nil {
		return nil, fmt.Errorf("%w: run go run ./bench/search gather first", err)
	}
	var all []listed
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	s := &set{name: "npm"}
	for _, l := range all {
		for _, raw := range l.Tools {
			t := search.ToolOf(wire.Raw(raw))
			t.Upstream = l.Name
			t.Name = l.Name + "__" + t.Name // as the gateway names it
			s.tools = append(s.tools, t)
		}
	}
	if err := json.Unmarshal(queriesJSON, &s.queries); err != nil {
		return nil, fmt.Errorf("queries.json: %w", err)
	}
	return s, nil
}

// by returns the set with the queries of a user or of a model only.
func (s *set) by(asker string) *set {
	return &set{
		name: s.name + "/" + asker, tools: s.tools,
		queries: slices.DeleteFunc(slices.Clone(s.queries), func(q query) bool { return q.By != asker }),
	}
}

// show returns a file of the newest commit in a clone, which may be bare.
func show(dir, file string) ([]byte, error) {
	b, err := exec.Command("git", "-C", dir, "show", "HEAD:"+file).Output()
	if err != nil {
		return nil, fmt.Errorf("%s has no %s: %w", dir, file, err)
	}
	return b, nil
}

// mcpproxySet reads the golden set of mcpproxy-go, with the schemas that its index reads too.
func mcpproxySet(dir string) (*set, error) {
	const specs = "specs/"
	b, err := show(dir, specs+"083-discovery-profiler/datasets/corpus_v2.tools.json")
	if err != nil {
		return nil, err
	}
	var corpus struct {
		Tools []struct {
			Server      string          `json:"server"`
			Tool        string          `json:"tool"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(b, &corpus); err != nil {
		return nil, err
	}
	s := &set{name: "mcpproxy"}
	for _, t := range corpus.Tools {
		schema := t.Schema
		if schema == nil {
			schema = t.InputSchema
		}
		definition, err := json.Marshal(map[string]any{"name": t.Server + "__" + t.Tool, "description": t.Description, "inputSchema": schema})
		if err != nil {
			return nil, err
		}
		tool := search.ToolOf(definition)
		tool.Upstream = t.Server
		s.tools = append(s.tools, tool)
	}
	if b, err = show(dir, specs+"065-evaluation-foundation/datasets/retrieval_golden_v1.json"); err != nil {
		return nil, err
	}
	var golden struct {
		Queries []struct {
			Query  string `json:"query"`
			Labels []struct {
				ToolID    string `json:"tool_id"`
				Relevance int    `json:"relevance"`
			} `json:"labels"`
		} `json:"queries"`
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		return nil, err
	}
	for _, q := range golden.Queries {
		one := query{Text: q.Query}
		for _, l := range q.Labels {
			if l.Relevance > 0 {
				one.Want = append(one.Want, l.ToolID)
			}
		}
		s.queries = append(s.queries, one)
	}
	return s, nil
}

// metatoolSet reads MetaTool's plugins and the questions of users about one plugin.
func metatoolSet(dir string) (*set, error) {
	s := &set{name: "metatool"}
	tools := map[string]string{}
	for _, file := range []string{"dataset/plugin_des.json", "dataset/big_tool_des.json"} {
		b, err := show(dir, file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &tools); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		s.tools = append(s.tools, search.Tool{Name: name, Description: tools[name]})
	}
	b, err := show(dir, "dataset/data/all_clean_data.csv")
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(strings.NewReader(string(b))).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range rows[1:] {
		if _, ok := tools[row[1]]; ok {
			s.queries = append(s.queries, query{Text: row[0], Want: []string{idOf("", row[1])}})
		}
	}
	return s, nil
}
