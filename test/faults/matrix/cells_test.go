package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/raw"
)

const cellsFile = "testdata/cells.txt"

// outcome is what the client of a cell gets.
type outcome struct {
	list string // why lists do not have the upstream, "" if they have it
	call string
}

func (o outcome) String() string {
	if o.list == "" {
		return o.call
	}
	return "list: " + o.list + "; call: " + o.call
}

// readCells returns the expected outcomes, one a line: the cell, a tab, the outcome.
func readCells(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile(cellsFile)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, outcome, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			t.Fatalf("%s: the line %q has no tab", cellsFile, line)
		}
		out[name] = outcome
	}
	return out
}

// record collects the outcomes of a run.
type record struct {
	mu       sync.Mutex
	outcomes map[string]string
}

func (r *record) add(c cell, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[c.String()] = o.String()
}

// write writes all outcomes in the order of the cells.
func (r *record) write(t *testing.T) {
	t.Helper()
	var text strings.Builder
	for _, k := range kinds {
		for _, transport := range transports {
			for _, moment := range moments {
				name := cell{k.name, transport, moment}.String()
				if outcome, ok := r.outcomes[name]; ok {
					fmt.Fprintf(&text, "%s\t%s\n", name, outcome)
				}
			}
		}
	}
	if err := os.WriteFile(cellsFile, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// outcomeOf describes the answer to a call.
func outcomeOf(answer raw.Answer, err error, upstream, text string) string {
	fault := answer.Response.Fault()
	if fault == nil {
		if err := checkAnswer(answer, err, text); err != nil {
			return "wrong: " + err.Error()
		}
		return "answered"
	}
	var data struct {
		Upstream, Reason, Since string
		Retryable               *bool
		RetryAfter              int
	}
	out := fmt.Sprintf("error %d", fault.Code)
	if answer.Status != 200 {
		out += fmt.Sprintf(" with HTTP %d", answer.Status)
	}
	if err := json.Unmarshal(fault.Data, &data); err != nil || data.Retryable == nil || data.Upstream != upstream {
		return out + ": " + fault.Error()
	}
	if _, err := time.Parse(time.RFC3339, data.Since); err != nil {
		return out + ": " + err.Error()
	}
	retry := "not retryable"
	if *data.Retryable {
		retry = "retryable"
	}
	if data.RetryAfter > 0 {
		retry += fmt.Sprintf(" after %d s", data.RetryAfter)
	}
	return out + ", " + retry + ": " + data.Reason
}

// listOutcome returns why the list does not have the upstream, "" if it does. It waits until that is what the cell expects; with -update, until it
// has been the same for a while.
func listOutcome(ctx context.Context, t *testing.T, c *raw.Client, upstream string, want func(string) bool) string {
	t.Helper()
	last, same := "", 0
	for began := time.Now(); ; {
		got, err := observe.List(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		now := got.Unavailable[upstream]
		if now == "" && len(got.Of(upstream)) == 0 {
			now = "missing without a reason"
		}
		if now == last {
			same++
		} else {
			last, same = now, 0
		}
		if want(last) || *update && same > 300 || time.Since(began) > listWithin {
			return last
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// listWithin bounds the wait for the reason that a cell expects.
const listWithin = 30 * time.Second
