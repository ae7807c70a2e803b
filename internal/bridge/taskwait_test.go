package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// scripted is an upstream with one task, and the client side of the back channel.
type scripted struct {
	// get answers the nth tasks/get, counted from 1. result answers tasks/result.
	get    func(n int) (string, error)
	result func(ctx context.Context) (string, error)
	// answer answers a question of the task.
	answer func(ctx context.Context, method string, params wire.Raw) (wire.Raw, error)

	mu    sync.Mutex
	began time.Time
	gets  int
	seen  []string // notifications, and all requests except tasks/get
	polls []time.Duration
}

func (s *scripted) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, fmt.Sprintf(format, args...))
}

func (s *scripted) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, "\n")
}

func (s *scripted) Notify(method string, params wire.Raw) { s.note("%s %s", method, params) }

func (s *scripted) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	return s.answer(ctx, method, params)
}

func (s *scripted) do(ctx context.Context, c *call.Call) (call.Result, error) {
	if err := ctx.Err(); err != nil {
		return call.Result{}, err
	}
	var text string
	var err error
	switch c.Method {
	case wire.MethodTasksGet:
		s.mu.Lock()
		s.gets++
		n := s.gets
		s.polls = append(s.polls, time.Since(s.began))
		s.mu.Unlock()
		text, err = s.get(n)
	case wire.MethodTasksResult:
		text, err = s.result(ctx)
	default:
		s.note("%s %s", c.Method, c.Params)
		text = `{}`
	}
	return call.Result{Raw: wire.Raw(text), Revision: wire.Rev20260728}, err
}

// wait runs a TaskWait for a client that asked for progress.
func (s *scripted) wait(ctx context.Context, created string, form wire.Era) (string, error) {
	s.began = time.Now()
	c := &call.Call{
		Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"a","_meta":{"progressToken":"p"}}`), Back: s,
		Client: &call.Client{Revision: wire.Rev20251125},
	}
	res, err := NewTaskWait(c, readTask(wire.ValueOf(wire.Raw(created)), form), s.do).Run(ctx)
	return string(res.Raw), err
}

const modernTask = `{"taskId":"t","status":"working","pollIntervalMs":2000}`

func TestWaitModern(t *testing.T) {
	silent := wire.Errorf(wire.CodeInternal, "no answer")
	for _, tc := range []struct {
		name      string
		get       []string // the last one repeats
		errs      map[int]error
		want      string // result or error
		seen      string
		polledFor time.Duration
	}{
		{
			name: "completed", get: []string{`{"taskId":"t","status":"working"}`, `{"taskId":"t","status":"completed","result":{"content":[],"x":1e400}}`},
			want: `{"content":[],"x":1e400}`, polledFor: 2*time.Second + time.Second, // the second status has no interval
		},
		{
			name: "status messages", get: []string{
				`{"status":"working","statusMessage":"one","pollIntervalMs":2000}`, `{"status":"working","statusMessage":"one","pollIntervalMs":2000}`,
				`{"status":"working","statusMessage":"two","pollIntervalMs":2000}`, `{"status":"completed","statusMessage":"three","result":{}}`,
			},
			want: `{}`, polledFor: 8 * time.Second,
			seen: `notifications/progress {"progressToken":"p","progress":1,"message":"one"}` + "\n" +
				`notifications/progress {"progressToken":"p","progress":2,"message":"two"}`,
		},
		{
			name: "a sign of life", get: slices.Concat(slices.Repeat([]string{`{"status":"working","pollIntervalMs":20000}`}, 2), []string{`{"status":"completed","result":{}}`}),
			want: `{}`, polledFor: 42 * time.Second,
			seen: `notifications/progress {"progressToken":"p","progress":1}`,
		},
		{
			name: "failed", get: []string{`{"status":"failed","error":{"code":-7,"message":"broken","data":{"a":1},"x":2}}`},
			want: "broken (-7)", polledFor: 2 * time.Second,
		},
		{name: "failed without a reason", get: []string{`{"status":"failed","statusMessage":"oh"}`}, want: "the upstream's task failed: oh (-32603)", polledFor: 2 * time.Second},
		{name: "cancelled", get: []string{`{"status":"cancelled","statusMessage":"enough"}`}, want: "the upstream cancelled the task: enough (-32603)", polledFor: 2 * time.Second},
		{name: "completed without a result", get: []string{`{"status":"completed"}`}, want: "the upstream's task completed without a result (-32603)", polledFor: 2 * time.Second},
		{
			name: "the upstream is away for a while", get: []string{"", "", `{"status":"completed","result":{}}`}, errs: map[int]error{1: silent, 2: silent},
			want: `{}`, polledFor: 6 * time.Second,
		},
		{
			name: "the upstream stays away", get: []string{""}, errs: map[int]error{1: silent, 2: silent, 3: silent, 4: silent, 5: silent, 6: silent},
			want: "no answer (-32603)", polledFor: 12 * time.Second,
		},
		{
			name: "the upstream forgot the task", get: []string{""},
			errs: map[int]error{1: &wire.Error{Code: -32602, Message: "gone", Raw: wire.Raw(`{"code":-32602,"message":"gone"}`)}},
			want: "gone (-32602)", polledFor: 2 * time.Second,
		},
		{
			name: "the task never ends", get: []string{modernTask}, want: "the task took longer than 1h0m0s (-32603)",
			seen: `tasks/cancel {"taskId":"t"}`, polledFor: time.Hour,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{get: func(n int) (string, error) { return tc.get[min(n, len(tc.get))-1], tc.errs[n] }}
				got, err := s.wait(t.Context(), modernTask, wire.EraModern)
				if err != nil {
					got = err.Error()
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
				log := s.log()
				if tc.polledFor == time.Hour { // with as many progress notifications
					log = log[strings.LastIndex(log, "\n")+1:]
				}
				if diff := cmp.Diff(tc.seen, log); diff != "" {
					t.Error(diff)
				}
				if took := time.Since(s.began); took != tc.polledFor {
					t.Errorf("waited %s, want %s", took, tc.polledFor)
				}
			})
		})
	}
}

// The error of a task passes unchanged.
func TestWaitKeepsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fault = `{"code":-7,"message":"broken","data":{"a":1},"x":2}`
		s := &scripted{get: func(int) (string, error) { return `{"status":"failed","error":` + fault + `}`, nil }}
		_, err := s.wait(t.Context(), modernTask, wire.EraModern)
		rpc, ok := errors.AsType[*wire.Error](err)
		if !ok || string(rpc.Append(nil)) != fault {
			t.Errorf("error %v", err)
		}
	})
}

func TestWaitCancelsTheTask(t *testing.T) {
	for _, form := range []wire.Era{wire.EraLegacy, wire.EraModern} {
		t.Run(form.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{
					get: func(int) (string, error) { return modernTask, nil },
					result: func(ctx context.Context) (string, error) {
						<-ctx.Done()
						return "", ctx.Err()
					},
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := s.wait(ctx, modernTask, form); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want the error of the context", err)
				}
				if got := s.log(); got != `tasks/cancel {"taskId":"t"}` {
					t.Errorf("the upstream saw %q", got)
				}
			})
		})
	}
}

func TestWaitAsksQuestionsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{
			get: func(n int) (string, error) {
				first := `"a":{"method":"elicitation/create","params":{"message":"A"}},"b":{"method":"sampling/createMessage","params":{}}`
				switch {
				case n < 4: // the same questions each time
					return `{"status":"input_required","inputRequests":{` + first + `},"pollIntervalMs":1000}`, nil
				case n < 7: // one more question, while the others are open
					return `{"status":"input_required","inputRequests":{` + first + `,"c":{"method":"roots/list"}},"pollIntervalMs":1000}`, nil
				default:
					return `{"status":"completed","result":{}}`, nil
				}
			},
			answer: func(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
				wait := map[string]time.Duration{"elicitation/create": 100 * time.Millisecond, "sampling/createMessage": 3500 * time.Millisecond, "roots/list": 100 * time.Millisecond}
				if err := sleep(ctx, wait[method]); err != nil {
					return nil, err
				}
				return wire.Raw(`{"to":"` + method + `"}`), nil
			},
		}
		if _, err := s.wait(t.Context(), modernTask, wire.EraModern); err != nil {
			t.Fatal(err)
		}
		want := `tasks/update {"taskId":"t","inputResponses":{"c":{"to":"roots/list"}}}` + "\n" +
			`tasks/update {"taskId":"t","inputResponses":{"a":{"to":"elicitation/create"},"b":{"to":"sampling/createMessage"}}}`
		got := strings.Split(s.log(), "\n")
		slices.Reverse(got)
		if diff := cmp.Diff(sorted(want), sorted(strings.Join(got, "\n"))); diff != "" {
			t.Error(diff)
		}
	})
}

func sorted(lines string) []string { return slices.Sorted(strings.SplitSeq(lines, "\n")) }

// When a task ends, its open questions are cancelled.
func TestWaitEndsOpenQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{
			get: func(n int) (string, error) {
				if n == 1 {
					return `{"status":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}}}`, nil
				}
				return `{"status":"completed","result":{"late":true}}`, nil
			},
			answer: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}
		got, err := s.wait(t.Context(), modernTask, wire.EraModern)
		if err != nil || got != `{"late":true}` || s.log() != "" {
			t.Errorf("got %s, %v, and the upstream saw %q", got, err, s.log())
		}
	})
}

// If the client answers a question with an error, the call ends and the task is cancelled.
func TestWaitRefusedQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{
			get: func(int) (string, error) {
				return `{"status":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{}}}}`, nil
			},
			answer: func(context.Context, string, wire.Raw) (wire.Raw, error) { return nil, wire.Errorf(-1, "no") },
		}
		_, err := s.wait(t.Context(), modernTask, wire.EraModern)
		if err == nil || err.Error() != "no (-1)" || s.log() != `tasks/cancel {"taskId":"t"}` {
			t.Errorf("error %v, and the upstream saw %q", err, s.log())
		}
	})
}

func TestWaitLegacy(t *testing.T) {
	const created = `{"taskId":"t","status":"working","pollInterval":1000}`
	early := &wire.Error{Code: -32600, Message: "not yet", Raw: wire.Raw(`{"code":-32600,"message":"not yet"}`)}
	broken := &wire.Error{Code: -9, Message: "broken", Raw: wire.Raw(`{"code":-9,"message":"broken"}`)}
	silent := wire.Errorf(wire.CodeInternal, "the server did not answer")
	type answer struct {
		after time.Duration
		text  string
		err   error
	}
	for _, tc := range []struct {
		name    string
		ends    time.Duration // end of the task
		results []answer
		want    string
		took    time.Duration
	}{
		{
			"the result comes with the end of the task", 2500 * time.Millisecond,
			[]answer{{2500 * time.Millisecond, `{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}`, nil}},
			`{"content":[]}`, 2500 * time.Millisecond,
		},
		{
			"the server is silent for too long", 70 * time.Second,
			[]answer{{time.Minute, "", silent}, {10 * time.Second, `{"content":[]}`, nil}},
			`{"content":[]}`, 71 * time.Second, // the next poll asks again
		},
		{
			"the server refuses to be asked early", 3500 * time.Millisecond,
			[]answer{{0, "", early}, {0, `{"content":[]}`, nil}},
			`{"content":[]}`, 4 * time.Second,
		},
		{
			"the request fails", 2 * time.Second,
			[]answer{{2 * time.Second, "", broken}, {0, "", broken}}, "broken (-9)", 2 * time.Second,
		},
		{
			"the request is refused early and fails", 2 * time.Second,
			[]answer{{time.Second, "", broken}, {0, "", broken}}, "broken (-9)", 2 * time.Second,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *scripted
				calls := 0
				s = &scripted{
					get: func(int) (string, error) {
						if time.Since(s.began) >= tc.ends {
							return `{"taskId":"t","status":"completed","pollInterval":1000}`, nil
						}
						return created, nil
					},
					result: func(ctx context.Context) (string, error) {
						a := tc.results[min(calls, len(tc.results)-1)]
						calls++
						if err := sleep(ctx, a.after); err != nil {
							return "", err
						}
						return a.text, a.err
					},
				}
				got, err := s.wait(t.Context(), created, wire.EraLegacy)
				if err != nil {
					got = err.Error()
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
				if took := time.Since(s.began); took != tc.took {
					t.Errorf("took %s, want %s", took, tc.took)
				}
				if strings.Contains(s.log(), "tasks/cancel") {
					t.Error("an ended task was cancelled")
				}
			})
		})
	}
}

// A request for a result is repeated after timeouts of a silent upstream, but not if the
// upstream is unreachable.
func TestRetryTaskResult(t *testing.T) {
	silent := wire.Errorf(wire.CodeInternal, "the server did not answer")
	gone := &wire.Error{Code: -32602, Message: "gone", Raw: wire.Raw(`{"code":-32602,"message":"gone"}`)}
	for _, tc := range []struct {
		name    string
		results []error // of tasks/result; nil means a result
		status  string  // of tasks/get; "" if tasks/get fails, too
		want    string
		asked   int
	}{
		{"the task takes its time", []error{silent, silent, nil}, "working", "done", 3},
		{"the task has ended meanwhile", []error{silent, nil}, "completed", "done", 2},
		{"the task has ended without a result", []error{silent, silent, nil}, "completed", "the server did not answer (-32603)", 2},
		{"the upstream is away", []error{silent, nil}, "", "the server did not answer (-32603)", 1},
		{"the upstream refuses", []error{gone, nil}, "working", "gone (-32602)", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				do := func(_ context.Context, c *call.Call) (call.Result, error) {
					if c.Method == wire.MethodTasksResult {
						asked++
						return call.Result{Raw: wire.Raw("done")}, tc.results[asked-1]
					}
					if tc.status == "" {
						return call.Result{}, silent
					}
					return call.Result{Raw: wire.Raw(`{"status":"` + tc.status + `"}`)}, nil
				}
				res, err := RetryTaskResult(do)(t.Context(), &call.Call{Method: wire.MethodTasksResult, Params: wire.Raw(`{"taskId":"t"}`)})
				got := string(res.Raw)
				if err != nil {
					got = err.Error()
				}
				if got != tc.want || asked != tc.asked {
					t.Errorf("got %s after %d requests, want %s after %d", got, asked, tc.want, tc.asked)
				}
			})
		})
	}
}
