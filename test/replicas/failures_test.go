package replicas

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mcpgateway/test/internal/raw"
)

// failures counts how calls failed, by kind.
type failures struct {
	mu    sync.Mutex
	kinds map[string]int
}

func (f *failures) add(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds == nil {
		f.kinds = make(map[string]int)
	}
	f.kinds[kind]++
}

// String lists the kinds, the most frequent one first.
func (f *failures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	kinds := slices.SortedFunc(maps.Keys(f.kinds), func(a, b string) int { return f.kinds[b] - f.kinds[a] })
	var out strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&out, "\n%6d %s", f.kinds[kind], kind)
	}
	return out.String()
}

// addresses are what differs between two errors of one kind.
var addresses = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+:\d+(->\d+\.\d+\.\d+\.\d+:\d+)?`)

// explained is the data of an error that says what happened.
type explained struct {
	Reason    string
	Retryable *bool // whether the call was certainly not begun
}

// failureOf returns what kind of failure the end of a call is: a broken connection, HTTP 502 of the balancer, 503 of a gateway that drains, or a JSON-RPC
// error that says what happened and whether the call may be sent again. Anything else is an error.
func failureOf(answer raw.Answer, err error) (kind string, unclear error) {
	fault := answer.Response.Fault()
	switch {
	case answer.Status == http.StatusBadGateway || answer.Status == http.StatusServiceUnavailable:
		return fmt.Sprintf("HTTP %d", answer.Status), nil
	case err != nil && (answer.Status == 0 || answer.Status == http.StatusOK):
		return addresses.ReplaceAllString(err.Error(), "…"), nil
	case err != nil || fault == nil:
		return "", fmt.Errorf("neither a result nor an error: HTTP %d %s (%v)", answer.Status, answer.Response.Text, err)
	}
	var data explained
	if json.Unmarshal(fault.Data, &data) != nil || fault.Code != -32603 || fault.Message == "" || data.Reason == "" || data.Retryable == nil {
		return "", fmt.Errorf("the error does not say what happened, and whether the call may be sent again: HTTP %d %s", answer.Status, answer.Response.Text)
	}
	return fmt.Sprintf("error %d, retryable %t: %s", fault.Code, *data.Retryable, data.Reason), nil
}

// isRetryable reports whether an answer is an error that says that the call was not begun.
func isRetryable(answer raw.Answer) bool {
	fault := answer.Response.Fault()
	var data explained
	return fault != nil && json.Unmarshal(fault.Data, &data) == nil && data.Retryable != nil && *data.Retryable
}
