package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

// suiteWithin bounds one run of the suite, which takes about three seconds on an idle machine.
const suiteWithin = 5 * time.Minute

// suite is a selection of scenarios that runs in one revision of the protocol.
type suite struct {
	revision string
	args     []string
	// The fixture's own numbers of checks: a changed suite or fixture must not become the baseline unnoticed.
	passed, failed int
}

// The suite has sets of required scenarios for two revisions. For the others it runs every applicable scenario.
var (
	suite20250326 = suite{"2025-03-26", []string{"--suite", "all", "--spec-version", "2025-03-26"}, 3, 0}
	suite20250618 = suite{"2025-06-18", []string{"--suite", "all", "--spec-version", "2025-06-18"}, 56, 0}
	suite20251125 = suite{"2025-11-25", []string{"--requirements", "2025-11-25"}, 82, 0}
	// The failed checks are those of the tasks scenarios, which are not scored and which the fixture does not implement.
	suite20260728 = suite{"2026-07-28", []string{"--requirements", "2026-07-28"}, 165, 30}
)

// tally is the result of one scenario.
type tally struct {
	passed, failed int
	complaints     []complaint // in the order of the checks
}

// complaint is a failed check or a warning.
type complaint struct {
	check   string // id of the check; several checks of a scenario may share it
	warning bool
	text    string
}

func (c complaint) String() string {
	kind := "failure"
	if c.warning {
		kind = "warning"
	}
	return fmt.Sprintf("%s %s: %s", kind, c.check, c.text)
}

func (t tally) String() string { return fmt.Sprintf("%d passed, %d failed", t.passed, t.failed) }

// results are the tallies of a run, by scenario.
type results map[string]tally

func (r results) total() tally {
	var sum tally
	for _, t := range r {
		sum.passed += t.passed
		sum.failed += t.failed
	}
	return sum
}

// run runs the suite against the server at url. A run without results is an error; failed checks are not.
func (s suite) run(t testing.TB, url string) (results, error) {
	t.Helper()
	return start(t, append([]string{"--url", url}, s.args...))
}

// start runs the suite once and reads its results.
func start(t testing.TB, args []string) (results, error) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), suiteWithin)
	defer cancel()
	args = append([]string{"server", "-o", dir}, args...)
	stdout, stderr, err := process.Run(ctx, t, "", process.Options{Args: rig.Conformance(t, args...)})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("conformance %q: %w\n%s%s", args, err, stdout, stderr)
	}
	// The exit status reports failed checks, which the comparison handles.
	r, err := read(dir)
	if err == nil && len(r) == 0 {
		err = errors.New("no results")
	}
	if err != nil {
		return nil, fmt.Errorf("conformance %q: %w\n%s%s", args, err, stdout, stderr)
	}
	return r, nil
}

// resultFolder matches the name of the folder with a scenario's results.
var resultFolder = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// read reads the results of the suite, one folder for each scenario.
func read(dir string) (results, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	r := make(results)
	for _, entry := range entries {
		match := resultFolder.FindStringSubmatch(entry.Name())
		if match == nil {
			return nil, fmt.Errorf("%s: not the name of a scenario's results", entry.Name())
		}
		scenario := match[1]
		if _, twice := r[scenario]; twice {
			return nil, fmt.Errorf("scenario %s: two results", scenario)
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name(), "checks.json"))
		if err != nil {
			return nil, err
		}
		if r[scenario], err = count(text); err != nil {
			return nil, fmt.Errorf("scenario %s: %w", scenario, err)
		}
	}
	return r, nil
}

// count counts the checks of one scenario. Skipped checks and remarks do not count, as in the suite's own summary.
func count(text []byte) (tally, error) {
	var checks []struct {
		ID, Status, Description, ErrorMessage string
	}
	if err := json.Unmarshal(text, &checks); err != nil {
		return tally{}, err
	}
	var t tally
	for _, check := range checks {
		switch check.Status {
		case "SUCCESS":
			t.passed++
			continue
		case "FAILURE":
			t.failed++
		case "WARNING":
		case "SKIPPED", "INFO":
			continue
		default:
			return tally{}, fmt.Errorf("check %s: unknown status %q", check.ID, check.Status)
		}
		t.complaints = append(t.complaints, complaint{check.ID, check.Status == "WARNING", check.ErrorMessage})
	}
	return t, nil
}

// compare returns the deviations of the gateway's results from the fixture's own results, one line for each scenario, in order.
func compare(direct, through results) []string {
	var wrong []string
	all := maps.Clone(direct)
	maps.Copy(all, through)
	for _, scenario := range slices.Sorted(maps.Keys(all)) {
		d, ran := direct[scenario]
		g, stillRan := through[scenario]
		if ran != stillRan || d.passed != g.passed || d.failed != g.failed {
			wrong = append(wrong, fmt.Sprintf("%s: %v, the fixture itself %v%s", scenario, g, d, g.listing()))
		}
	}
	return wrong
}

// listing returns the complaints, one per line.
func (t tally) listing() string {
	var out strings.Builder
	for _, c := range t.complaints {
		fmt.Fprintf(&out, "\n    %v", c)
	}
	return out.String()
}
