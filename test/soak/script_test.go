package soak

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A script lists the steps of a server before it answers a call, separated by spaces:
//
//	p3     three progress notifications
//	a:es   requests an elicitation and a sampling, concurrently
//	w5     waits 5 ms
//	h      waits until the call is cancelled
type script []string

func parseScript(text string) script { return strings.Fields(text) }

// question is a question of a script. Its text and its answer contain the token of the call.
type question struct {
	key  string // unique in the call
	kind byte   // 'e' or 's'
}

func (q question) text(token string) string { return "ask " + token + " " + q.key }

func (q question) method() string {
	if q.kind == 's' {
		return "sampling/createMessage"
	}
	return "elicitation/create"
}

// params returns the params of the question as a server sends them.
func (q question) params(token string) string {
	if q.kind == 's' {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}],"maxTokens":5}`, q.text(token))
	}
	return fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{"echo":{"type":"string"}}}}`, q.text(token))
}

// questions returns the questions of a step, nil if the step asks none.
func (s script) questions(step int) []question {
	kinds, ok := strings.CutPrefix(s[step], "a:")
	if !ok {
		return nil
	}
	var out []question
	for i := range len(kinds) {
		out = append(out, question{fmt.Sprintf("q%d.%d", step, i), kinds[i]})
	}
	return out
}

// progresses returns the number of progress notifications of the script.
func (s script) progresses() int {
	sum := 0
	for _, step := range s {
		if n, ok := strings.CutPrefix(step, "p"); ok {
			sum += number(n)
		}
	}
	return sum
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("script: " + err.Error())
	}
	return n
}

// asker gets the answers to questions: the echo of each, in order. It returns false if the call must return to get them.
type asker func(ctx context.Context, questions []question) (echoes []string, ok bool, err error)

// perform performs a script from a step on. It returns the step at which it stopped, len(s) if it is complete.
func (s script) perform(ctx context.Context, from int, progress func(n int), ask asker) (step int, echoes []string, err error) {
	told := s[:from].progresses() // progress continues after the earlier steps
	for step = from; step < len(s); step++ {
		what, arg := s[step][0], s[step][1:]
		switch what {
		case 'p':
			for range number(arg) {
				told++
				progress(told)
			}
		case 'w':
			if !sleep(ctx, time.Duration(number(arg))*time.Millisecond) {
				return step, nil, ctx.Err()
			}
		case 'h':
			<-ctx.Done()
			return step, nil, ctx.Err()
		case 'a':
			got, ok, err := ask(ctx, s.questions(step))
			if err != nil || !ok {
				return step, echoes, err
			}
			echoes = append(echoes, got...)
		default:
			return step, nil, fmt.Errorf("no such step: %q", s[step])
		}
	}
	return step, echoes, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
