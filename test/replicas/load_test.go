package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpgateway/test/internal/raw"
)

const (
	clientsEach = 8 // of each era
	steps       = 20
	// breath is the pause of a client between two calls.
	breath = 10 * time.Millisecond
	// within bounds every wait.
	within = 60 * time.Second
)

// load is clients of both eras, and what they see.
type load struct {
	t       *testing.T
	url     string
	servers map[string]*server // by the names of their upstreams
	over    chan struct{}      // closed when no more calls begin
	strict  bool               // no call may fail
	mark    string             // begins the tokens of this load
	calls   sync.WaitGroup     // of clients that call, until over
	ears    sync.WaitGroup     // of listeners, until their context ends

	failures failures

	answered, failed, resumed, again, bad atomic.Int64
}

func (l *load) wrong(format string, a ...any) {
	if l.bad.Add(1) <= 10 {
		l.t.Errorf(format, a...)
	}
}

// start lets the clients begin. Each legacy client has one session until the end.
func (l *load) start(ctx context.Context) []*listener {
	var listeners []*listener
	for i := range 2 * clientsEach {
		c, err := raw.Open(ctx, l.url, []string{raw.Legacy, raw.Modern}[i%2])
		if err != nil {
			l.t.Fatal(err)
		}
		if c.Revision() == raw.Legacy {
			subscribe(ctx, l.t, c)
			listeners = append(listeners, l.listen(ctx, c))
		}
		l.calls.Go(func() { l.work(ctx, c, i) })
	}
	return listeners
}

// subscribe subscribes to the resource that is touched.
func subscribe(ctx context.Context, t *testing.T, c *raw.Client) {
	t.Helper()
	if _, err := c.Call(ctx, "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, "legacy+"+touched)); err != nil {
		t.Fatal(err)
	}
}

// end waits until no call runs, and then ends the listeners.
func (l *load) end(cancel context.CancelFunc) {
	close(l.over)
	l.calls.Wait()
	cancel()
	l.ears.Wait()
}

// work calls tools until the test ends.
func (l *load) work(ctx context.Context, c *raw.Client, client int) {
	r := rand.New(rand.NewPCG(uint64(client), 1))
	for n := 0; ; n++ {
		select {
		case <-l.over:
			return
		case <-time.After(breath):
		}
		upstream := []string{"legacy", "modern"}[r.IntN(2)]
		if r.IntN(3) == 0 {
			l.count(ctx, c, upstream)
		} else {
			l.record(ctx, c, upstream, fmt.Sprintf("%s %d-%d", l.mark, client, n))
		}
	}
}

// record calls the tool that must not be repeated.
func (l *load) record(ctx context.Context, c *raw.Client, upstream, token string) {
	answer, err := l.send(ctx, c, upstream+"__record", fmt.Sprintf(`{"token":%q}`, token))
	ok := l.judge(c, answer, err)
	times := l.servers[upstream].times(token)
	if times > 1 || ok && times != 1 {
		l.wrong("%s at %s was done %d times, answered: %t", token, upstream, times, ok)
	}
}

// count calls the tool that reports progress, and resumes a broken stream in the legacy era.
func (l *load) count(ctx context.Context, c *raw.Client, upstream string) {
	answer, err := l.send(ctx, c, upstream+"__count", fmt.Sprintf(`{"n":%d}`, steps))
	seen := answer.Before
	for tries := 0; err != nil && answer.LastEvent != "" && c.Revision() == raw.Legacy && ctx.Err() == nil && tries < 10; tries++ {
		l.resumed.Add(1)
		if answer, err = c.Resume(ctx, answer.LastEvent); err == nil && answer.Status >= 500 {
			err = fmt.Errorf("HTTP %d", answer.Status)
		}
		seen = append(seen, answer.Before...)
	}
	ok := l.judge(c, answer, err)
	for i, m := range seen {
		var params struct{ Progress float64 }
		if err := json.Unmarshal([]byte(m.Member("params")), &params); err != nil || params.Progress != float64(i+1) {
			l.wrong("message %d of %d before the response is %s", i+1, len(seen), m.Text)
			return
		}
	}
	if ok && len(seen) != steps {
		l.wrong("%d of %d progress notifications", len(seen), steps)
	}
}

// send calls a tool with a progress token. It sends the call again, as every client may, while no replica has taken it: HTTP
// 503, or an error that is retryable unless no call may fail.
func (l *load) send(ctx context.Context, c *raw.Client, tool, arguments string) (raw.Answer, error) {
	meta := `"progressToken":"p"`
	if c.Revision() == raw.Modern {
		meta += "," + c.Meta()
	}
	for {
		answer, err := c.Send(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{%s}}`, tool, arguments, meta))
		if answer.Status != http.StatusServiceUnavailable && (l.strict || !isRetryable(answer)) || ctx.Err() != nil {
			return answer, err
		}
		l.again.Add(1)
		time.Sleep(breath) // Retry-After counts in seconds, and another replica may take the call at once
	}
}

// judge reports whether a call was answered by its result. Any other end must say that the call failed, and a session must never be unknown.
func (l *load) judge(c *raw.Client, answer raw.Answer, err error) bool {
	if err == nil && answer.Status == http.StatusOK && answer.Response.Fault() == nil && strings.Contains(answer.Response.Text, `"content"`) {
		l.answered.Add(1)
		return true
	}
	l.failed.Add(1)
	kind, unclear := failureOf(answer, err)
	switch {
	case answer.Status == http.StatusNotFound:
		l.wrong("the session of a %s client is lost: %s", c.Revision(), answer.Response.Text)
	case unclear != nil:
		l.wrong("%v", unclear)
	case l.strict:
		l.wrong("a call failed: HTTP %d %s %v", answer.Status, answer.Response.Text, err)
	}
	l.failures.add(kind)
	return false
}

// listener hears of updates on the GET stream of a session, which it opens again when it breaks.
type listener struct {
	session string
	updates atomic.Int64
}

func (l *load) listen(ctx context.Context, c *raw.Client) *listener {
	h := &listener{session: c.Session()}
	l.ears.Go(func() {
		for ctx.Err() == nil {
			stream, err := c.Subscribe(ctx)
			if err != nil {
				if ctx.Err() == nil && strings.Contains(err.Error(), "404") {
					l.wrong("a listener's session is lost: %v", err)
					return
				}
				time.Sleep(breath) // nobody says when a replica is there again
				continue
			}
			for {
				m, err := stream.Next()
				if err != nil {
					break
				}
				if m.Method() == "notifications/resources/updated" {
					h.updates.Add(1)
				}
			}
			stream.Close()
		}
	})
	return h
}
