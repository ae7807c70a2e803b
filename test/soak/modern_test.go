package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// modernMeta returns the _meta of a modern request.
func modernMeta(token string, tasks bool) string {
	declared := canAnswer
	if tasks {
		declared += `,"extensions":{"` + tasksExtension + `":{}}`
	}
	return fmt.Sprintf(`"_meta":{%q:%q,"io.modelcontextprotocol/clientInfo":{"name":"soak","version":"1"},"io.modelcontextprotocol/clientCapabilities":{%s},"progressToken":%q}`,
		metaVersion, modern, declared, token)
}

// try sends a request of a call, with additional members of params, and returns its messages. The end of the context is not an error. While the store is
// away, try sends the request again if the gateway says that it may.
func (c *client) try(ctx context.Context, k *call, more string, each func(event)) *attempt {
	for tries := 0; ; tries++ {
		a := c.tryOnce(ctx, k, more, each)
		if tries == maxRepeats || !c.mayRepeat(k, a) {
			return a
		}
	}
}

// tryOnce is try without repetitions.
func (c *client) tryOnce(ctx context.Context, k *call, more string, each func(event)) *attempt {
	a := &attempt{call: k, id: nextID()}
	resp, err := c.send(ctx, "tools/call", k.to.name+"__run", request(a.id, "tools/call", `{`+k.arguments("run")+more+`,`+modernMeta(k.token, false)+`}`))
	if err == nil {
		err = events(resp, func(e event) bool {
			a.take(c, e)
			if each != nil {
				each(e)
			}
			return true
		})
		resp.Body.Close()
	}
	if err != nil && ctx.Err() == nil {
		c.violation("call %s (%s, %s): %v", k.token, k.to.name, k.script, err)
	}
	return a
}

// round is an input_required result.
type round struct {
	ResultType    string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
	RequestState string
}

// roundOf returns the questions of an attempt, nil if the call has ended.
func roundOf(a *attempt) *round {
	if len(a.answers) != 1 || a.answers[0].Error != nil {
		return nil
	}
	var r round
	if json.Unmarshal(a.answers[0].Result, &r) != nil || r.ResultType != "input_required" {
		return nil
	}
	return &r
}

// retry returns the members of params that answer a round with the answers by key.
func (r *round) retry(answers []string) string {
	return fmt.Sprintf(`,"inputResponses":{%s},"requestState":%q`, strings.Join(answers, ","), r.RequestState)
}

// answers returns the answers to the questions of a round.
func (c *client) answers(k *call, r *round) []string {
	var out []string
	for key, q := range r.InputRequests {
		echo := k.given[k.keyOf(c, q.Method, q.Params)]
		if echo == "" { // otherwise the same answer again
			echo = k.echo(c, k.keyOf(c, q.Method, q.Params))
		}
		out = append(out, fmt.Sprintf(`%q:%s`, key, answerTo(q.Method, echo)))
	}
	return out
}

// modernCall makes one call and answers its questions, in some cases wrongly.
func (c *client) modernCall(to *upstream, script string) {
	release := to.enter(script)
	defer release()
	parks := to.revision == legacy && strings.Contains(script, "a:")
	if parks {
		c.permits <- struct{}{}
		defer func() { <-c.permits }()
	}
	k := c.newCall(to, script)
	k.rounds = strings.Contains(script, "a:")
	began := time.Now() // the start of the request with the last questions
	a := c.try(context.Background(), k, "", nil)
	var used []string
	for turns := 0; ; turns++ {
		r := roundOf(a)
		if r == nil {
			break
		}
		used = append(used, r.RequestState)
		if turns > 20 {
			c.violation("call %s (%s, %s) does not end", k.token, to.name, script)
			return
		}
		if len(r.InputRequests) == 0 || r.RequestState == "" {
			c.violation("call %s got an input_required result without questions: %s", k.token, a.answers[0].Result)
			return
		}
		late := time.Since(began) > parkTTL/2
		began = time.Now()
		var gone bool
		if a, gone = c.turn(k, r, turns > 6); gone {
			return
		}
		if c.refusal(a) && (late || time.Since(began) > parkTTL/2 || c.wasApart(k)) {
			c.excused.Add(1) // the machine was too busy for the client to return in time
			return
		}
	}
	if c.judge(k, a) && parks && c.rand.IntN(4) == 0 {
		for _, state := range used { // each was valid once
			again := &round{RequestState: state}
			c.wantRefused(k, "used", c.try(context.Background(), k, again.retry(nil), nil))
		}
	}
}

// turn continues one round: with the answers, or first with something else. It reports whether the client never returns.
func (c *client) turn(k *call, r *round, straight bool) (a *attempt, gone bool) {
	answers := c.answers(k, r)
	ctx := context.Background()
	choice := c.rand.IntN(40) // most clients answer correctly
	if straight || choice >= 5 && k.to.ambiguous && c.rand.IntN(10) > 0 {
		choice = 39 // a waiting call would block all other questions there
	}
	switch choice {
	case 0: // too few answers
		return c.try(ctx, k, r.retry(answers[1:]), nil), false
	case 1: // too many answers
		return c.try(ctx, k, r.retry(append(answers, `"nobody-asked":{"action":"decline"}`)), nil), false
	case 2: // an invalid answer: the state stays valid
		var wrong []string
		for key := range r.InputRequests {
			wrong = append(wrong, fmt.Sprintf(`%q:{"action":"perhaps"}`, key))
		}
		if a := c.try(ctx, k, r.retry(wrong), nil); k.to.revision == modern || !c.refusal(a) {
			return a, false
		}
	case 3: // two concurrent retries
		var second *attempt
		var wg sync.WaitGroup
		other := &client{soak: c.soak, revision: modern, rand: c.rand}
		more := r.retry(answers)
		wg.Go(func() { second = other.try(ctx, k, more, nil) })
		a := c.try(ctx, k, more, nil)
		wg.Wait()
		if c.refusal(a) {
			a, second = second, a
		}
		if len(second.answers) != 1 {
			c.violation("the second of two retries of call %s got %d answers", k.token, len(second.answers))
		}
		return a, false
	case 4: // a modified state
		changed := *r
		changed.RequestState = r.RequestState[:len(r.RequestState)-2] + "AA"
		if changed.RequestState != r.RequestState {
			c.wantRefused(k, "changed", c.try(ctx, k, changed.retry(answers), nil))
		}
	case 5: // no retry, or a late one
		c.alone.Add(1)
		if k.to.revision == modern {
			return nil, true // the gateway holds nothing for this call
		}
		time.Sleep(parkTTL + parkTTL/2)
		c.wantRefused(k, "lapsed", c.try(ctx, k, r.retry(answers), nil))
		return nil, true
	case 6: // a disconnect while the call continues
		ctx, cancel := context.WithTimeout(ctx, time.Duration(c.rand.IntN(1000))*time.Microsecond)
		defer cancel()
		a := c.try(ctx, k, r.retry(answers), nil)
		if len(a.answers) > 1 {
			c.violation("the cancelled call %s got %d answers", k.token, len(a.answers))
		}
		// It is unknown whether the gateway has received the retry. If it has not, the call expires.
		c.cancelled.Add(1)
		if k.to.revision == legacy {
			time.Sleep(parkTTL + parkTTL/2)
		}
		return nil, true
	}
	return c.try(ctx, k, r.retry(answers), nil), false
}

// refusal reports whether an attempt was refused because of its state or its answers.
func (c *client) refusal(a *attempt) bool {
	return len(a.answers) == 1 && a.answers[0].Error != nil && a.answers[0].Error.Code == codeInvalidParams
}

func (c *client) wantRefused(k *call, why string, a *attempt) {
	c.states.Add(1)
	if !c.refusal(a) && !c.wasApart(k) {
		c.violation("call %s (%s, %s): a state that was %s was accepted: %v", k.token, k.to.name, k.script, why, a.answers)
	}
}

// modernCancel makes a call that waits, and disconnects.
func (c *client) modernCancel(to *upstream) {
	release := to.enter("")
	defer release()
	k := c.newCall(to, "p1 h")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := c.try(ctx, k, "", func(event) { cancel() })
	c.cancelled.Add(1)
	if len(a.answers) > 0 && !k.disturbed() {
		c.violation("the cancelled call %s got %v", k.token, a.answers)
	}
}

// modernTask runs a call as a task, or waits if the upstream's tasks cannot be relayed, and fetches its result.
func (c *client) modernTask(to *upstream) {
	release := to.enter("")
	defer release()
	k := c.newCall(to, "")
	k.job = true
	meta := modernMeta(k.token, true)
	raw, err := c.ask(context.Background(), "tools/call", to.name+"__job", `{`+k.arguments("job")+`,`+meta+`}`)
	var t struct {
		ResultType, TaskID, Status string
		Result                     json.RawMessage
	}
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	for err == nil && t.ResultType == "task" || t.Status == "working" {
		time.Sleep(time.Millisecond)
		id := t.TaskID
		if raw, err = c.ask(context.Background(), "tasks/get", id, fmt.Sprintf(`{"taskId":%q,%s}`, id, meta)); err != nil {
			break
		}
		t.ResultType = ""
		if err = json.Unmarshal(raw, &t); err == nil && t.Status == "completed" {
			raw = t.Result
		}
	}
	c.judgeTask(k, raw, err)
}
