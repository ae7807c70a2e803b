package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"mcpgateway/internal/search"
)

// measurement is what to measure.
type measurement struct {
	data, mcpproxy, metatool string
	half                     string
	failures                 int
}

// score is how well queries found what they should.
type score struct {
	queries                    int
	recall1, recall5, recall10 float64
	hit5, mrr                  float64
}

func (m *measurement) run(w io.Writer) error {
	if m.half != "tune" && m.half != "report" && m.half != "all" {
		return fmt.Errorf("-half %s: say tune, report or all", m.half)
	}
	var sets []*set
	add := func(s *set, err error) error {
		sets = append(sets, s)
		return err
	}
	if s, err := npmSet(m.data); err == nil {
		sets = append(sets, s.by("user"), s.by("model"), s)
	} else if m.mcpproxy == "" && m.metatool == "" {
		return err
	} else {
		fmt.Fprintln(w, "without the set npm:", err)
	}
	if m.mcpproxy != "" {
		if err := add(mcpproxySet(m.mcpproxy)); err != nil {
			return err
		}
	}
	if m.metatool != "" {
		if err := add(metatoolSet(m.metatool)); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%-10s %-7s %6s %7s %8s %8s %9s %6s %6s\n", "set", "half", "tools", "queries", "recall@1", "recall@5", "recall@10", "hit@5", "MRR")
	for _, s := range sets {
		if err := s.check(); err != nil {
			return err
		}
		x := s.index()
		score := m.score(w, s, x)
		fmt.Fprintf(w, "%-10s %-7s %6d %7d %8.3f %8.3f %9.3f %6.3f %6.3f\n", s.name, m.half, len(s.tools), score.queries, score.recall1, score.recall5, score.recall10, score.hit5, score.mrr)
	}
	return nil
}

// check reports labels that name no tool.
func (s *set) check() error {
	known := map[string]bool{}
	for _, t := range s.tools {
		known[s.id(t.Name, t.Upstream)] = true
	}
	for _, q := range s.queries {
		for _, id := range slices.Concat(q.Want, q.Any) {
			if !known[id] {
				return fmt.Errorf("set %s: query %q wants %s, which no server lists", s.name, q.Text, id)
			}
		}
	}
	return nil
}

func (s *set) id(name, upstream string) string {
	return idOf(upstream, strings.TrimPrefix(name, upstream+"__"))
}

func (s *set) index() *search.Index {
	docs := make([]*search.Doc, len(s.tools))
	for i, t := range s.tools {
		docs[i] = search.Analyze(t)
	}
	return search.New(docs)
}

// score asks the queries of the half, and prints failures: queries that have nothing wanted
// among the first five.
func (m *measurement) score(w io.Writer, s *set, x *search.Index) score {
	var sum score
	failures := 0
	for _, q := range s.queries {
		if m.half != "all" && q.half() != m.half {
			continue
		}
		var ids []string
		for _, h := range x.Search(search.Query{Text: q.Text, Limit: 10}).Hits {
			ids = append(ids, s.id(h.Name(), h.Upstream()))
		}
		sum.add(q, ids)
		if rank := q.rank(ids); (rank == 0 || rank > 5) && failures < m.failures {
			failures++
			fmt.Fprintf(w, "  %q wants %s, finds %s\n", q.Text, strings.Join(slices.Concat(q.Want, q.Any), " "), strings.Join(ids[:min(5, len(ids))], " "))
		}
	}
	n := float64(max(sum.queries, 1))
	for _, f := range []*float64{&sum.recall1, &sum.recall5, &sum.recall10, &sum.hit5, &sum.mrr} {
		*f /= n
	}
	return sum
}

func (s *score) add(q query, ids []string) {
	s.queries++
	s.recall1 += q.recall(ids, 1)
	s.recall5 += q.recall(ids, 5)
	s.recall10 += q.recall(ids, 10)
	if rank := q.rank(ids); rank > 0 {
		s.mrr += 1 / float64(rank)
		if rank <= 5 {
			s.hit5++
		}
	}
}

// rank returns the place of the first wanted tool from 1 on, or 0.
func (q query) rank(ids []string) int {
	return 1 + slices.IndexFunc(ids, func(id string) bool { return slices.Contains(q.Want, id) || slices.Contains(q.Any, id) })
}

// recall returns the share of the wanted tools among the first k.
func (q query) recall(ids []string, k int) float64 {
	ids = ids[:min(k, len(ids))]
	if len(q.Any) > 0 {
		if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(q.Any, id) }) {
			return 1
		}
		return 0
	}
	found := 0
	for _, id := range q.Want {
		if slices.Contains(ids, id) {
			found++
		}
	}
	return float64(found) / float64(max(len(q.Want), 1))
}
