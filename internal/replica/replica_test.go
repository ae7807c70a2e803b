package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// switchable is a store that can be away, and whose logs can lose entries.
type switchable struct {
	*storetest.Memory
	away    atomic.Bool
	forget  atomic.Bool // Append does nothing
	appends atomic.Int64
}

var errAway = fmt.Errorf("test: %w", store.ErrUnavailable)

func (s *switchable) Get(ctx context.Context, keys ...store.Key) ([][]byte, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Memory.Get(ctx, keys...)
}

func (s *switchable) Append(ctx context.Context, key store.Key, keep int, ttl time.Duration, entries ...[]byte) error {
	if s.away.Load() {
		return errAway
	}
	s.appends.Add(1)
	if s.forget.Load() {
		return nil
	}
	return s.Memory.Append(ctx, key, keep, ttl, entries...)
}

func (s *switchable) Read(ctx context.Context, key store.Key, after string, max int, wait time.Duration) ([]store.Entry, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Memory.Read(ctx, key, after, max, wait)
}

// member is a replica of a test.
type member struct {
	*Replicas
	stop  func() // ends Run and waits for it
	store *mortal
}

// mortal is the store of one replica, which may die.
type mortal struct {
	store.Store
	dead atomic.Bool
}

func (s *mortal) err(err error) error {
	if s.dead.Load() {
		return errAway
	}
	return err
}

func (s *mortal) Get(ctx context.Context, keys ...store.Key) ([][]byte, error) {
	if err := s.err(nil); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, keys...)
}

func (s *mortal) Append(ctx context.Context, key store.Key, keep int, ttl time.Duration, entries ...[]byte) error {
	if err := s.err(nil); err != nil {
		return err
	}
	return s.Store.Append(ctx, key, keep, ttl, entries...)
}

func (s *mortal) Delete(ctx context.Context, keys ...store.Key) error {
	if err := s.err(nil); err != nil {
		return err
	}
	return s.Store.Delete(ctx, keys...)
}

func (s *mortal) Read(ctx context.Context, key store.Key, after string, max int, wait time.Duration) ([]store.Entry, error) {
	entries, err := s.Store.Read(ctx, key, after, max, wait)
	if err := s.err(err); err != nil {
		return nil, err
	}
	return entries, nil
}

// start runs a replica. prepare may set handlers.
func start(t *testing.T, s store.Store, name string, prepare func(*Replicas)) *member {
	t.Helper()
	m := &member{store: &mortal{Store: s}}
	m.Replicas = New(Options{Store: m.store, Name: name})
	if prepare != nil {
		prepare(m.Replicas)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	<-m.first
	m.stop = func() { cancel(); <-done }
	t.Cleanup(m.stop)
	return m
}

// die ends a replica without a word, as if its process was killed.
func (m *member) die() { m.store.dead.Store(true) }

func echo(_ context.Context, from string, request []byte, _ *Conversation) ([]byte, error) {
	return append([]byte(from+": "), request...), nil
}

// hang is a handler that runs until its context ends, and says so.
func hang(ended chan<- error) Handler {
	return func(ctx context.Context, _ string, _ []byte, _ *Conversation) ([]byte, error) {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Memory{}
		a := start(t, s, "a", nil)
		b := start(t, s, "b", func(r *Replicas) {
			r.Handle("echo", echo)
			r.Handle("fail", func(context.Context, string, []byte, *Conversation) ([]byte, error) {
				return nil, errors.New("no luck")
			})
		})
		for _, n := range []int{0, 5, maxInline, maxInline + 1, 5 << 20} {
			body := bytes.Repeat([]byte("x"), n)
			reply, err := a.Call(t.Context(), "b", "echo", body, nil)
			if err != nil || string(reply) != "a: "+string(body) {
				t.Errorf("echo of %d bytes: %d bytes, %v", n, len(reply), err)
			}
		}
		if _, err := a.Call(t.Context(), "b", "fail", nil, nil); !errors.As(err, new(*Failed)) || err.Error() != "no luck" {
			t.Errorf("the error of a handler is %v", err)
		}
		if _, err := a.Call(t.Context(), "b", "unknown", nil, nil); !errors.Is(err, ErrRefused) {
			t.Errorf("an unknown kind: %v", err)
		}
		if _, err := a.Call(t.Context(), "nobody", "echo", nil, nil); !errors.Is(err, ErrGone) {
			t.Errorf("an unknown replica: %v", err)
		}
		if _, err := a.Call(t.Context(), "b", "echo", make([]byte, a.o.MaxMessage+1), nil); !errors.Is(err, ErrTooLong) {
			t.Errorf("a request that is too long: %v", err)
		}
		time.Sleep(a.o.Beat)
		synctest.Wait()
		if got := a.Others(); len(got) != 1 || got[0] != "b" {
			t.Errorf("a sees %v", got)
		}
		if n := testutil.ToFloat64(b.o.Metrics.conversations.WithLabelValues(sideHandler)); n != 0 {
			t.Errorf("%v conversations are left", n)
		}
	})
}

// TestNewcomerIsSeenAtOnce checks that others see a replica that starts before their next beat.
func TestNewcomerIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := new(storetest.Memory)
		a := start(t, kept, "a", nil)
		begun := time.Now()
		start(t, kept, "b", nil)
		synctest.Wait()
		if got := a.Others(); len(got) != 1 || got[0] != "b" || time.Since(begun) >= a.o.Beat {
			t.Errorf("a sees %v after %v", got, time.Since(begun))
		}
	})
}

// Messages arrive in order in both directions, large ones too.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Memory{}
		a := start(t, s, "a", nil)
		start(t, s, "b", func(r *Replicas) {
			r.Handle("chat", func(ctx context.Context, _ string, _ []byte, c *Conversation) ([]byte, error) {
				for i := range 300 {
					if err := c.Send(fmt.Appendf(nil, "%d%s", i, strings.Repeat("x", i%3*maxInline))); err != nil {
						return nil, err
					}
					answer, err := c.Receive(ctx)
					if err != nil || string(answer) != fmt.Sprint(i) {
						return nil, fmt.Errorf("the answer %d is %q, %v", i, answer, err)
					}
				}
				return []byte("done"), nil
			})
		})
		i := 0
		reply, err := a.Call(t.Context(), "b", "chat", nil, func(c *Conversation, msg []byte) {
			if strings.TrimRight(string(msg), "x") != fmt.Sprint(i) {
				t.Errorf("message %d is %.20q", i, msg)
			}
			if err := c.Send(fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
			i++
		})
		if string(reply) != "done" || err != nil || i != 300 {
			t.Errorf("%q, %v after %d messages", reply, err, i)
		}
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Memory{}
		a := start(t, s, "a", nil)
		ended := make(chan error, 1)
		start(t, s, "b", func(r *Replicas) { r.Handle("hang", hang(ended)) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Call(ctx, "b", "hang", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call ends with %v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler ends with %v", err)
		}
	})
}

// A replica that dies silently, or ends in order: callers and handlers of the others learn it.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(*member){"dies": (*member).die, "stops": func(m *member) { m.stop() }} {
		t.Run("the handler's replica "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &storetest.Memory{}
				a := start(t, s, "a", nil)
				b := start(t, s, "b", func(r *Replicas) { r.Handle("hang", hang(make(chan error, 1))) })
				result := make(chan error, 1)
				go func() { _, err := a.Call(t.Context(), "b", "hang", nil, nil); result <- err }()
				synctest.Wait()
				before := time.Now()
				end(b)
				if name == "stops" {
					synctest.Wait()
					if others := a.Others(); len(others) != 0 {
						t.Errorf("a still sees %v", others)
					}
				}
				if err := <-result; !errors.Is(err, ErrLost) {
					t.Errorf("the call ends with %v", err)
				}
				if took := time.Since(before); took > a.ttl()+a.o.Beat {
					t.Errorf("it ends after %v", took)
				}
				if _, err := a.Call(t.Context(), "b", "hang", nil, nil); !errors.Is(err, ErrGone) {
					t.Errorf("the next call ends with %v", err)
				}
			})
		})
		t.Run("the caller's replica "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &storetest.Memory{}
				a := start(t, s, "a", nil)
				ended := make(chan error, 1)
				start(t, s, "b", func(r *Replicas) { r.Handle("hang", hang(ended)) })
				go func() { _, _ = a.Call(t.Context(), "b", "hang", nil, nil) }()
				synctest.Wait()
				end(a)
				if err := <-ended; !errors.Is(err, ErrLost) {
					t.Errorf("the handler ends with %v", err)
				}
			})
		})
	}
}

// up reports whether the store answered at the last beat.
func (m *member) up() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.storeUp
}

// A flood does not fill the store: the sender waits for the receiver, and Send says so.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &switchable{Memory: &storetest.Memory{}}
		a := start(t, s, "a", nil)
		start(t, s, "b", func(r *Replicas) {
			r.Handle("echo", echo)
			r.Handle("flood", func(_ context.Context, _ string, _ []byte, c *Conversation) ([]byte, error) {
				sent := 0
				for c.Send([]byte("more")) == nil {
					sent++
				}
				return fmt.Append(nil, sent), nil
			})
		})
		slow := make(chan bool)
		result := make(chan error, 1)
		go func() {
			_, err := a.Call(t.Context(), "b", "flood", nil, func(*Conversation, []byte) { <-slow })
			result <- err
		}()
		synctest.Wait()
		if reply, err := a.Call(t.Context(), "b", "echo", nil, nil); err != nil {
			t.Errorf("another call meanwhile: %q, %v", reply, err)
		}
		close(slow)
		if err := <-result; err == nil || !errors.Is(err, ErrLost) {
			t.Errorf("the flood ends with %v", err)
		}
	})
}

// A replica that does not read gets no more than the window allows.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &switchable{Memory: &storetest.Memory{}}
		a := start(t, s, "a", nil)
		_, _ = s.PutNew(t.Context(), aliveKey("b"), []byte("b"), time.Hour) // alive, but reads nothing
		c, err := a.open("b", "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		for c.Send(make([]byte, 1<<10)) == nil {
			sent++
		}
		synctest.Wait()
		for c.Send(make([]byte, 1<<10)) == nil {
			sent++
		}
		synctest.Wait()
		entries, _ := s.Memory.Read(t.Context(), inboxKey("b"), "", 1<<20, 0)
		if len(entries) != maxUnacked || sent > maxQueued+maxUnacked {
			t.Errorf("%d entries in the store, %d messages accepted", len(entries), sent)
		}
		if _, err := a.Call(t.Context(), "b", "x", nil, nil); !errors.Is(err, ErrRefused) || !errors.Is(err, ErrFull) {
			t.Errorf("another call: %v", err)
		}
		_ = s.Delete(t.Context(), aliveKey("b"))
		if _, err := c.next(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("the conversation ends with %v", err)
		}
	})
}

func TestTooManyConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Memory{}
		a := start(t, s, "a", nil)
		b := start(t, s, "b", func(r *Replicas) {
			r.o.MaxConversations = 2
			r.Handle("hang", hang(make(chan error, 2)))
		})
		for range 2 {
			go func() { _, _ = a.Call(t.Context(), "b", "hang", nil, nil) }()
		}
		synctest.Wait()
		if _, err := a.Call(t.Context(), "b", "hang", nil, nil); !errors.Is(err, ErrRefused) {
			t.Errorf("a call too many: %v", err)
		}
		drained := make(chan bool)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			b.Drain(ctx)
			close(drained)
		}()
		synctest.Wait()
		a.stop()
		<-drained
	})
}

// Requests that run when a replica drains are answered before it leaves.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Memory{}
		a := start(t, s, "a", nil)
		goOn := make(chan bool)
		b := start(t, s, "b", func(r *Replicas) {
			r.Handle("wait", func(context.Context, string, []byte, *Conversation) ([]byte, error) {
				<-goOn
				return []byte("done"), nil
			})
		})
		result := make(chan string, 1)
		go func() { reply, _ := a.Call(t.Context(), "b", "wait", nil, nil); result <- string(reply) }()
		synctest.Wait()
		go func() { b.Drain(t.Context()); b.stop() }()
		synctest.Wait()
		if _, err := a.Call(t.Context(), "b", "wait", nil, nil); !errors.Is(err, ErrEnding) || !errors.Is(err, ErrRefused) {
			t.Errorf("a call to a replica that drains: %v", err)
		}
		goOn <- true
		if got := <-result; got != "done" {
			t.Errorf("the reply is %q", got)
		}
	})
}

// Entries that are not frames, and frames that do not fit, are counted and ignored.
func TestMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Memory{}
		a := start(t, s, "a", nil)
		b := start(t, s, "b", func(r *Replicas) { r.Handle("echo", echo) })
		good := (&frame{kind: frameReply, from: "c", at: position{1, 1}, id: 7}).encode()
		huge := (&frame{kind: frameReply, from: "c", at: position{1, 2}, stored: 1 << 40}).encode()
		own := (&frame{kind: frameReply, from: "b", at: position{1, 1}}).encode()
		note := (&frame{kind: frameNote, from: "c"}).encode()
		for _, key := range []store.Key{inboxKey("b"), notesKey} {
			_ = s.Append(t.Context(), key, 100, time.Minute, nil, []byte("nonsense"), good[:10], good, huge, own, note)
		}
		synctest.Wait()
		if n := testutil.ToFloat64(b.o.Metrics.lost.WithLabelValues(lostMalformed)); n != 6+6 {
			t.Errorf("%v malformed entries, want 12", n)
		}
		if reply, err := a.Call(t.Context(), "b", "echo", nil, nil); err != nil {
			t.Errorf("%q, %v", reply, err)
		}
	})
}

// Of two processes with one name, one takes part.
func TestOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Memory{}
		a := start(t, s, "a", nil)
		var handled [2]atomic.Int64
		handler := func(i int) func(r *Replicas) {
			return func(r *Replicas) {
				r.Handle("count", func(context.Context, string, []byte, *Conversation) ([]byte, error) {
					handled[i].Add(1)
					return nil, nil
				})
			}
		}
		first := start(t, s, "b", handler(0))
		synctest.Wait()
		second := start(t, s, "b", handler(1))
		synctest.Wait()
		var ok int64
		call := func() error {
			_, err := a.Call(t.Context(), "b", "count", nil, nil)
			if err == nil {
				ok++
			}
			return err
		}
		if err := call(); err != nil {
			t.Error(err)
		}
		if _, err := second.Call(t.Context(), "a", "count", nil, nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("the second one calls: %v", err)
		}
		first.stop()
		time.Sleep(2 * a.o.Beat)
		// Unless a has seen that b was absent, the next call shows it that b is another process.
		if err := call(); err != nil && !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		if err := call(); err != nil {
			t.Error(err)
		}
		if handled[0].Load() != 1 || handled[0].Load()+handled[1].Load() != ok {
			t.Errorf("handled %d and %d of %d", handled[0].Load(), handled[1].Load(), ok)
		}
	})
}

func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &switchable{Memory: &storetest.Memory{}}
		var mu sync.Mutex
		got := map[string][]string{}
		var members []*member
		for _, name := range []string{"a", "b", "c"} {
			members = append(members, start(t, s, name, func(r *Replicas) {
				r.OnNote("news", func(from string, note []byte) {
					mu.Lock()
					defer mu.Unlock()
					got[name] = append(got[name], from+":"+string(note))
				})
			}))
		}
		synctest.Wait()
		for i := range 100 {
			members[0].Tell("news", fmt.Append(nil, i))
		}
		members[1].Tell("other", nil)
		if err := Post(t.Context(), s, "none of them", "news", []byte("posted")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		late := start(t, s, "late", func(r *Replicas) {
			r.OnNote("news", func(string, []byte) { t.Error("a note from before the start") })
		})
		synctest.Wait()
		late.stop()
		for _, name := range []string{"b", "c"} {
			posted := slices.Index(got[name], "none of them:posted")
			if posted < 0 {
				t.Fatalf("%s did not get the note of a process that is no replica: %v", name, got[name])
			}
			got[name] = slices.Delete(got[name], posted, posted+1)
			if len(got[name]) != 100 || got[name][0] != "a:0" || got[name][99] != "a:99" {
				t.Errorf("%s got %v", name, got[name])
			}
		}
		if len(got["a"]) > 1 {
			t.Errorf("a got its own notes: %v", got["a"])
		}
		s.away.Store(true)
		members[0].Tell("news", []byte("lost"))
		members[0].Tell("news", make([]byte, maxInline+1))
		synctest.Wait()
		if n := testutil.ToFloat64(members[0].o.Metrics.lost.WithLabelValues(lostNote)); n != 2 {
			t.Errorf("%v lost notes, want 2", n)
		}
		s.away.Store(false)
	})
}

// Conversations that cost nothing once they have ended: nothing is sent between idle replicas.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &switchable{Memory: &storetest.Memory{}}
		a := start(t, s, "a", nil)
		start(t, s, "b", func(r *Replicas) { r.Handle("echo", echo) })
		begun := s.appends.Load()
		if _, err := a.Call(t.Context(), "b", "echo", nil, nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		before := s.appends.Load()
		time.Sleep(time.Minute)
		if n := s.appends.Load() - before; n != 0 || before-begun != 2 {
			t.Errorf("%d appends for the call, %d later", before-begun, n)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add((&frame{kind: frameBegin, from: "a", at: position{1, 2}, id: 3, topic: "echo", body: []byte("x")}).encode())
	f.Add([]byte{frameVersion, 1, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode(data)
		if err != nil {
			return
		}
		again, err := decode(got.encode())
		if err != nil || again.from != got.from || again.at != got.at || !bytes.Equal(again.body, got.body) {
			t.Errorf("%+v becomes %+v, %v", got, again, err)
		}
	})
}

func BenchmarkCall(b *testing.B) {
	s := &storetest.Memory{}
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	x, y := New(Options{Store: s, Name: "x"}), New(Options{Store: s, Name: "y"})
	y.Handle("echo", echo)
	wg.Go(func() { x.Run(ctx) })
	wg.Go(func() { y.Run(ctx) })
	<-y.first
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Call(ctx, "y", "echo", []byte("{}"), nil); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	wg.Wait()
}
