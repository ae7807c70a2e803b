package conformance

import (
	"strings"
	"sync"
	"testing"

	"mcpgateway/test/internal/rig"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	rig.Enter()
	goleak.VerifyTestMain(m)
}

// eras are the suites by the era that they test, which is also the era of their fixture.
var eras = map[rig.Era][]suite{
	rig.Legacy: {suite20250326, suite20250618, suite20251125},
	rig.Modern: {suite20260728},
}

// The runs are sequential: the suite has time limits, and four concurrent runs would keep a small machine too busy for them.
func TestConformance(t *testing.T) {
	baselines := make(map[string]func() (results, error)) // by revision; each runs once
	for era, suites := range eras {
		url := rig.Fixture(t, era)
		for _, s := range suites {
			baselines[s.revision] = sync.OnceValues(func() (results, error) { return s.run(t, url) })
		}
	}
	for _, suites := range eras {
		for _, s := range suites {
			t.Run("the fixture itself "+s.revision, func(t *testing.T) {
				got, err := baselines[s.revision]()
				if err != nil {
					t.Fatal(err)
				}
				// The comparisons below require that these are the fixture's real numbers.
				if sum := got.total(); sum.passed != s.passed || sum.failed != s.failed {
					t.Errorf("%v, want %d passed, %d failed", sum, s.passed, s.failed)
				}
			})
		}
	}
	for _, c := range cells() {
		t.Run(c.String(), func(t *testing.T) {
			gateway := rig.StartGateway(t, rig.Config{"upstreams": c.upstreams(t)})
			for _, s := range eras[c.era] {
				t.Run(s.revision, func(t *testing.T) {
					direct, err := baselines[s.revision]()
					if err != nil {
						t.Fatal(err)
					}
					through, err := s.run(t, gateway.URL)
					if err != nil {
						t.Fatal(err)
					}
					for _, wrong := range compare(direct, through) {
						t.Error(wrong)
					}
				})
			}
		})
	}
}

// cell is one way to run the fixture behind the gateway.
type cell struct {
	era    rig.Era
	stdio  bool // the gateway starts the fixture on stdio; otherwise it connects over streamable HTTP
	beside bool // there is a second upstream
}

func cells() []cell {
	var all []cell
	for era := range eras {
		for _, stdio := range []bool{false, true} {
			all = append(all, cell{era, stdio, false}, cell{era, stdio, true})
		}
	}
	return all
}

func (c cell) String() string {
	words := []string{string(c.era), "HTTP"}
	if c.stdio {
		words[1] = "stdio"
	}
	if c.beside {
		words = append(words, "beside another")
	}
	return strings.Join(words, " ")
}

// upstreams returns the configuration of the fixture without a prefix, because the suite uses native names, and optionally of a prefixed upstream of
// the other era, which no request of the suite may reach.
func (c cell) upstreams(t *testing.T) rig.Upstreams {
	t.Helper()
	// Each cell has its own fixture: scenarios change its lists, and concurrent runs would see each other's changes.
	fixture := rig.Config{"prefix": "", "era": c.era}
	if c.stdio {
		command := rig.FixtureCommand(t)
		fixture["command"], fixture["args"] = command[0], command[1:]
		if rig.Replicated() { // the suite changes the lists of a process, and the replicas then have one for it
			fixture["session"] = "per-principal"
		}
	} else {
		fixture["url"] = rig.Fixture(t, c.era)
	}
	all := rig.Upstreams{"fixture": fixture}
	if c.beside {
		other := rig.Modern
		if c.era == rig.Modern {
			other = rig.Legacy
		}
		all["beside"] = rig.Config{"url": rig.Fixture(t, other)}
	}
	return all
}
