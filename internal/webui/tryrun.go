package webui

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/webui/jsontext"
	"mcpgateway/internal/wire"
)

const (
	// maxTries bounds the tries that are kept. If there are more, the one that ended first is forgotten.
	maxTries = 64
	// maxRunning bounds the tries that run at the same time.
	maxRunning = 8
	// maxTryResult bounds one result, and maxTryResults all that are kept, in bytes.
	maxTryResult  = 8 << 20
	maxTryResults = 64 << 20
	// tryTime bounds how long a try runs.
	tryTime = 10 * time.Minute
	// tryLife is how long a try is kept after its end.
	tryLife = 30 * time.Minute
	// maxTryLines bounds the log messages of one try, and maxTryLine each of them, in bytes.
	maxTryLines = 200
	maxTryLine  = 2 << 10
	// maxTryAsks bounds the questions of one try that wait for an answer.
	maxTryAsks = 8
	// maxTryVisits bounds how often an upstream may ask to open addresses before it makes the call.
	maxTryVisits = 10
)

// tries are the calls that users try in the console. They are only in memory.
type tries struct {
	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu  sync.Mutex
	all map[string]*try // by id
}

func newTries() *tries {
	t := &tries{all: make(map[string]*try)}
	t.life, t.end = context.WithCancel(context.Background())
	return t
}

// errTooManyTries refuses a try.
var errTooManyTries = errors.New("too many calls of the console run; wait for one to end, or cancel one")

// try is one call that a person makes in the console. It is the back channel of the call.
type try struct {
	id, owner string // owner is the session of the console, "" without sessions
	kind      call.Kind
	name      string // public name or URI
	viewpoint viewpoint
	arguments wire.Raw // nil for a resource
	from      string   // the id of the try on whose page it began, or ""
	began     time.Time
	cancel    context.CancelFunc

	mu       sync.Mutex
	ended    time.Time // zero while it runs
	progress tryProgress
	lines    []tryLine
	dropped  int // lines that are not kept
	asks     []*tryAsk
	result   wire.Raw
	err      *wire.Error
	over     string // why there is no result to show, in words
}

// tryProgress is the last report of progress.
type tryProgress struct {
	Progress, Total, Message string
}

// tryLine is a log message, or a remark of the console.
type tryLine struct{ Level, Logger, Text string }

// tryAsk is a question that waits for a person.
type tryAsk struct {
	id     string
	params wire.Raw
	answer chan wire.Raw // of the result; it has a place for the only one

	posted url.Values // what a person has filled in, nil for nothing
	wrong  bool       // and sent, although it is not right
}

// start makes the call of t.
func (ts *tries) start(t *try, c *call.Call, do func(context.Context, *call.Call) (call.Result, error)) error {
	ts.forget(time.Now(), func(string) bool { return true })
	ts.mu.Lock()
	defer ts.mu.Unlock()
	running := 0
	for _, other := range ts.all {
		if other.endedAt().IsZero() {
			running++
		}
	}
	if running >= maxRunning || ts.life.Err() != nil {
		return errTooManyTries
	}
	var ctx context.Context
	ctx, t.cancel = context.WithTimeout(ts.life, tryTime)
	t.id, t.began = rand.Text(), time.Now()
	ts.all[t.id] = t
	ts.makeRoom()
	ts.wg.Go(func() {
		defer t.cancel()
		t.run(ctx, c, do)
		ts.mu.Lock()
		defer ts.mu.Unlock()
		ts.makeRoom()
	})
	return nil
}

// makeRoom forgets the tries that ended first until the others fit. The caller holds mu.
func (ts *tries) makeRoom() {
	for {
		var first *try
		var ended time.Time
		size := 0
		for _, t := range ts.all {
			t.mu.Lock()
			size += len(t.result) + len(t.arguments)
			if !t.ended.IsZero() && (first == nil || t.ended.Before(ended)) {
				first, ended = t, t.ended
			}
			t.mu.Unlock()
		}
		if len(ts.all) <= maxTries && size <= maxTryResults || first == nil {
			return
		}
		delete(ts.all, first.id)
	}
}

// of returns a try of a session, nil if there is none.
func (ts *tries) of(owner, id string) *try {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.all[id]; t != nil && t.owner == owner {
		return t
	}
	return nil
}

// forget ends and forgets all tries that are too old or whose session has ended.
func (ts *tries) forget(now time.Time, open func(owner string) bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for id, t := range ts.all {
		ended := t.endedAt()
		if !open(t.owner) || !ended.IsZero() && now.Sub(ended) > tryLife {
			t.cancel()
			delete(ts.all, id)
		}
	}
}

// endOf ends and forgets all tries of an owner.
func (ts *tries) endOf(owner string) {
	ts.forget(time.Time{}, func(of string) bool { return of != owner })
}

// close ends all tries, and waits for that.
func (ts *tries) close() {
	ts.mu.Lock()
	ts.end()
	ts.mu.Unlock()
	ts.wg.Wait()
}

// call returns the call of a try by a person.
func (t *try) call(by, remote string) *call.Call {
	c := &call.Call{
		ID: requestid.New(), Principal: t.viewpoint.who, Remote: remote, By: by, WithoutGrants: by != "", LogLevel: wire.LevelDebug, Back: t, Client: tryClient, Trace: &call.Trace{},
	}
	member := "name"
	switch t.kind {
	case call.Tool:
		c.Method = wire.MethodToolsCall
	case call.Prompt:
		c.Method = wire.MethodPromptsGet
	default:
		c.Method, member = wire.MethodResourcesRead, "uri"
	}
	c.Params = wire.SetMember(wire.Raw(`{}`), member, wire.String(t.name))
	if t.arguments != nil {
		c.Params = wire.SetMember(c.Params, "arguments", t.arguments)
	}
	c.Params = wire.SetMember(c.Params, "_meta", wire.Raw(`{"progressToken":1}`))
	return c
}

// tryClient is the client of all tries. It declares sampling so that a server gets the words of errNoModel.
var tryClient = &call.Client{
	Key: "console", Sessionless: true, Revision: wire.Rev20251125, Info: wire.Raw(`{"name":"gateway-console","version":"1"}`),
	Capabilities: wire.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["` + mimeApp + `"]}}}`),
}

// errNoModel is the answer to a request for sampling, with the code of a refusal (2025-11-25, client/sampling,
// "Error Handling").
var errNoModel = wire.Errorf(-1, "the console has no model and cannot answer a sampling request")

// run makes the call, and keeps its end.
func (t *try) run(ctx context.Context, c *call.Call, do func(context.Context, *call.Call) (call.Result, error)) {
	var res call.Result
	var err error
	for range maxTryVisits {
		if res, err = do(ctx, c); err == nil || !t.visits(ctx, err) {
			break
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.asks = time.Now(), nil
	if err == nil {
		if len(res.Raw) > maxTryResult {
			t.over = "The call succeeded. Its result is too long for the console."
			return
		}
		t.result = slices.Clone(res.Raw)
		return
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.over = "The call took longer than the console waits. The upstream may have begun it."
	case ctx.Err() != nil:
		t.over = "You cancelled the call. The upstream may have begun it."
	case errors.As(err, &t.err):
		short := &wire.Error{Code: t.err.Code, Message: strings.Clone(clip(t.err.Message, 4<<10))}
		if len(t.err.Data) <= jsontext.MaxShown {
			short.Data = slices.Clone(t.err.Data)
		}
		t.err = short
	default:
		t.over = "The call ended without an answer."
	}
}

// visits has a person open the addresses that an upstream wants opened before the call. It reports whether to call
// again.
func (t *try) visits(ctx context.Context, err error) bool {
	refused, ok := errors.AsType[*wire.Error](err)
	if !ok || refused.Code != wire.CodeURLElicitation {
		return false
	}
	again := false
	for e := range valueOf(refused.Data).Get("elicitations").Elements() {
		answer, err := t.Ask(ctx, wire.MethodElicit, wire.SetMember(e.Raw(), "mode", wire.String("url")))
		if err != nil || !valueOf(answer).Get("action").IsString("accept") {
			return false
		}
		again = true
	}
	return again
}

// Notify implements call.BackChannel.
func (t *try) Notify(method string, params wire.Raw) {
	v := valueOf(params)
	if method == wire.NoteProgress {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.progress = tryProgress{jsontext.Number(v.Get("progress")), jsontext.Number(v.Get("total")), strings.Clone(clip(v.Get("message").Str(), maxTryLine))}
	} else if method == wire.NoteMessage {
		t.say(tryLine{strings.Clone(clip(v.Get("level").Str(), 20)), strings.Clone(clip(v.Get("logger").Str(), 100)), clip(strings.Clone(jsontext.Plain(v.Get("data"))), maxTryLine)})
	}
}

// say adds a line.
func (t *try) say(l tryLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == maxTryLines {
		t.dropped++
		return
	}
	l.Text = strings.Clone(l.Text)
	t.lines = append(t.lines, l)
}

// Ask implements call.BackChannel.
func (t *try) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	switch wire.MethodOf(method).Shape {
	case wire.ShapeElicitation:
	case wire.ShapeSampling:
		t.say(tryLine{Level: "console", Text: "The server asked for a model to write something (sampling). The console has no model, and refused."})
		return nil, errNoModel
	default:
		return nil, wire.Errorf(wire.CodeMethodNotFound, "the console does not answer this")
	}
	a := &tryAsk{id: rand.Text(), params: slices.Clone(params), answer: make(chan wire.Raw, 1)}
	t.mu.Lock()
	full := len(t.asks) == maxTryAsks
	if !full {
		t.asks = append(t.asks, a)
	}
	t.mu.Unlock()
	if full {
		return nil, wire.Errorf(wire.CodeInternal, "too many questions wait for the person at the console")
	}
	defer t.drop(a)
	select {
	case raw := <-a.answer:
		return raw, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// drop removes a question that waits no longer.
func (t *try) drop(a *tryAsk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asks = slices.DeleteFunc(t.asks, func(b *tryAsk) bool { return a == b })
}

// answer gives the answer to a question. It reports false if the question waits no longer.
func (t *try) answer(id string, raw wire.Raw) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, a := range t.asks {
		if a.id == id {
			a.answer <- raw
			t.asks = slices.Delete(t.asks, i, i+1) // nobody answers it twice
			return true
		}
	}
	return false
}

// keep remembers what a person has filled in so far.
func (t *try) keep(id string, posted url.Values, wrong bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.asks {
		if a.id == id {
			a.posted, a.wrong = posted, wrong
		}
	}
}

func (t *try) endedAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// ownerOf returns the session whose tries a request may see.
func (c *Console) ownerOf(r *http.Request) string {
	switch v := visitorOf(r); {
	case v != nil:
		return visitorOwner + v.Identity() + "\x00" + v.session
	case c.Token == "":
		return ""
	}
	return c.sessionID(r)
}

// visitorOwner begins the owners at the main address. Their logins are not in this process: a try of them ends at their logout here, and
// with its time.
const visitorOwner = "visitor\x00"

// isOpen reports whether the session that owns a try is still open.
func (c *Console) isOpen(owner string) bool {
	return owner == "" || strings.HasPrefix(owner, visitorOwner) || c.sessions.knows(owner, time.Now())
}
