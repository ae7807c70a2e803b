package main

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The queries want tools that the servers had, and both askers and halves have their share.
func TestQueriesFitTheManifest(t *testing.T) {
	var manifest []struct {
		Name, Package string
		Tools         []string
	}
	if err := json.Unmarshal(manifestJSON, &manifest); err != nil {
		t.Fatal(err)
	}
	var servers []server
	if err := json.Unmarshal(serversJSON, &servers); err != nil {
		t.Fatal(err)
	}
	packages := map[string]string{}
	for _, s := range servers {
		packages[s.Name] = s.Package + "@" + s.Version
	}
	known := map[string]bool{}
	for _, m := range manifest {
		if packages[m.Name] != m.Package {
			t.Errorf("%s is %s in the manifest and %q in servers.json", m.Name, m.Package, packages[m.Name])
		}
		for _, name := range m.Tools {
			known[idOf(m.Name, name)] = true
		}
	}
	var queries []query
	if err := json.Unmarshal(queriesJSON, &queries); err != nil {
		t.Fatal(err)
	}
	texts, by, halves := map[string]bool{}, map[string]int{}, map[string]int{}
	for _, q := range queries {
		if texts[q.Text] || len(q.Any) == 0 {
			t.Errorf("the query %q is there twice, or wants nothing", q.Text)
		}
		texts[q.Text] = true
		by[q.By]++
		halves[q.half()]++
		for _, id := range q.Any {
			if !known[id] {
				t.Errorf("the query %q wants %s, which no server lists", q.Text, id)
			}
		}
	}
	if len(known) < 1000 || len(queries) < 300 || by["user"]+by["model"] != len(queries) || halves["tune"] < 150 || halves["report"] < 150 {
		t.Errorf("%d tools, %d queries of %v in %v", len(known), len(queries), by, halves)
	}
}

func TestScores(t *testing.T) {
	found := []string{"a", "b", "c", "d", "e", "f"}
	for _, c := range []struct {
		q       query
		rank    int
		recall5 float64
	}{
		{query{Want: []string{"b", "f"}}, 2, 0.5},
		{query{Want: []string{"f"}}, 6, 0},
		{query{Want: []string{"z"}}, 0, 0},
		{query{Any: []string{"z", "e"}}, 5, 1},
		{query{Any: []string{"f"}}, 6, 0},
	} {
		if rank, recall := c.q.rank(found), c.q.recall(found, 5); rank != c.rank || recall != c.recall5 {
			t.Errorf("%+v: rank %d, recall %v", c.q, rank, recall)
		}
	}
}
