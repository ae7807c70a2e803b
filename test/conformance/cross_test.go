package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"mcpgateway/test/internal/rig"

	"github.com/google/go-cmp/cmp"
)

// crossings are the suites of one era in front of the fixture of the other. The number of passed checks is exact too: a scenario that ends early
// omits checks, and an omitted check has not passed. Checks of tasks are not counted.
var crossings = []struct {
	suite  suite
	era    rig.Era        // of the fixture
	passed map[string]int // over each transport
}{
	{suite20260728, rig.Legacy, map[string]int{overHTTP: 145, overStdio: 143, overOwn: 146}},
	{suite20251125, rig.Modern, map[string]int{overHTTP: 70, overStdio: 70, overOwn: 70}},
}

func TestCrossEra(t *testing.T) {
	// The fixture does not support tasks in either era: their scenarios have the same outcome as without the gateway.
	direct, err := suite20260728.run(t, rig.Fixture(t, rig.Modern))
	if err != nil {
		t.Fatal(err)
	}
	tasks, _ := split(direct)
	for _, c := range crossings {
		for _, over := range []string{overHTTP, overStdio} {
			if over == overStdio && rig.Replicated() {
				over = overOwn
			}
			t.Run(fmt.Sprintf("%s in front of the %s fixture over %s", c.suite.revision, c.era, over), func(t *testing.T) {
				upstreams := cell{era: c.era, stdio: over != overHTTP}.upstreams(t)
				through, err := c.suite.run(t, rig.StartGateway(t, rig.Config{"upstreams": upstreams}).URL)
				if err != nil {
					t.Fatal(err)
				}
				ofTasks, rest := split(through)
				wrong := judge(rest, reasons(c.suite.revision, over))
				if c.suite.revision == suite20260728.revision {
					wrong = append(wrong, compare(tasks, ofTasks)...)
				}
				for _, w := range wrong {
					t.Error(w)
				}
				if sum := rest.total(); sum.passed != c.passed[over] {
					t.Errorf("%d checks passed, want %d", sum.passed, c.passed[over])
				}
			})
		}
	}
}

// split separates the results of the tasks scenarios from the others.
func split(all results) (tasks, rest results) {
	tasks, rest = make(results), make(results)
	for scenario, tally := range all {
		if strings.HasPrefix(scenario, "tasks-") {
			tasks[scenario] = tally
		} else {
			rest[scenario] = tally
		}
	}
	return tasks, rest
}

// judge returns the deviations of a suite of the other era: complaints that are not on the list of impossible checks, and entries of the list
// that did not fail.
func judge(got results, reasons map[[2]string]string) []string {
	var wrong []string
	unseen := maps.Clone(reasons)
	for _, scenario := range slices.Sorted(maps.Keys(got)) {
		for _, c := range got[scenario].complaints {
			at := [2]string{scenario, c.check}
			if reasons[at] == "" {
				wrong = append(wrong, fmt.Sprintf("%s: %v", scenario, c))
			}
			delete(unseen, at)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(unseen), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		wrong = append(wrong, fmt.Sprintf("%s: %s has not failed: take it off the list (%s)", at[0], at[1], unseen[at]))
	}
	return wrong
}

func TestJudge(t *testing.T) {
	x := tally{passed: 2, failed: 1, complaints: []complaint{{"x", false, "it broke"}}}
	why := map[[2]string]string{{"ping", "x"}: "why"}
	for _, test := range []struct {
		name    string
		got     results
		reasons map[[2]string]string
		want    []string
	}{
		{"all passed", results{"ping": {passed: 3}}, nil, nil},
		{"failed and not listed", results{"ping": x}, nil, []string{"ping: failure x: it broke"}},
		{"failed and listed", results{"ping": x}, why, nil},
		{"listed in another scenario", results{"pong": x}, why, []string{"pong: failure x: it broke", "ping: x has not failed: take it off the list (why)"}},
		{"listed and passed", results{"ping": {passed: 3}}, why, []string{"ping: x has not failed: take it off the list (why)"}},
		{"warning", results{"ping": {complaints: []complaint{{"x", true, "hm"}}}}, nil, []string{"ping: warning x: hm"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, judge(test.got, test.reasons)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
