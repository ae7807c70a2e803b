//go:build !race

// The race detector makes sync.Pool drop values at random, which changes the number of
// allocations.

package http1server

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
)

// requestAllocs bounds the allocations of one request and its answer: the request, its
// head as a string, its headers, and what it reads. Raise it only if the cost is a decision.
const requestAllocs = 5

var jsonType = []string{"application/json"}

func answerTwo(w http.ResponseWriter, r *http.Request) {
	var buf [64]byte
	r.Body.Read(buf[:])
	w.Header()["Content-Type"] = jsonType
	w.Write(buf[:2])
}

// oneExchange returns a function that sends a request and reads the answer.
func oneExchange(t testing.TB, s serverUnderTest) func() {
	c, err := net.Dial("tcp", serve(t, s, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	send, answer := []byte(fuzzSeeds[0]), make([]byte, 4096)
	return func() {
		if _, err := c.Write(send); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(answer); err != nil { // a small answer arrives in one read
			t.Fatal(err)
		}
	}
}

func TestRequestAllocations(t *testing.T) {
	if got := testing.AllocsPerRun(200, oneExchange(t, New(quietServer(http.HandlerFunc(answerTwo))))); got > requestAllocs {
		t.Errorf("a request allocates %v times, at most %d are allowed", got, requestAllocs)
	}
}

// BenchmarkServe measures a request, including its client.
func BenchmarkServe(b *testing.B) {
	for name, s := range map[string]serverUnderTest{
		"http1server": New(quietServer(http.HandlerFunc(answerTwo))), "nethttp": quietServer(http.HandlerFunc(answerTwo)),
	} {
		b.Run(name, func(b *testing.B) {
			run := oneExchange(b, s)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

// streamMemory bounds what a connection with a silent stream and its client hold, in bytes:
// on the heap, and in stacks unless that is 0.
var streamMemory = map[string]struct{ heap, stacks int64 }{
	"in the handler":    {5 << 10, 0},
	"after the handler": {3 << 10, 5 << 10},
}

// A connection keeps no buffers while its answer is a stream on which nothing happens. If the
// handler has returned, it keeps nothing of the request either, and has one goroutine with a
// small stack.
func TestMemoryOfSilentStreams(t *testing.T) {
	const streams = 200
	for name, most := range streamMemory {
		t.Run(name, func(t *testing.T) {
			silent := make(chan waiting, streams+1)
			address := serve(t, New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Type"] = jsonType
				stay := func(_ context.Context, w http.ResponseWriter) {
					w.(waiting).Flush()
					silent <- w.(waiting)
					w.(waiting).Wait(time.Time{})
				}
				if name == "after the handler" {
					deep(func() { w.(waiting).Continue(stay) })
				} else {
					stay(r.Context(), w)
				}
			}))), nil)
			answer := make([]byte, 4096)
			open := func() {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				if _, err := c.Write([]byte("GET /stream HTTP/1.1\r\nHost: g\r\n\r\n")); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Read(answer); err != nil {
					t.Fatal(err)
				}
			}
			open()
			heap, stacks := inUse()
			goroutines := runtime.NumGoroutine()
			for range streams {
				open()
			}
			polltest.Until(t, "each stream has one goroutine", func() bool { return runtime.NumGoroutine()-goroutines <= streams })
			heapThen, stacksThen := inUse()
			if got := (heapThen - heap) / streams; got > most.heap {
				t.Errorf("a silent stream holds %d bytes, at most %d are allowed", got, most.heap)
			}
			if got := (stacksThen - stacks) / streams; got > most.stacks && most.stacks > 0 {
				t.Errorf("a silent stream has stacks of %d bytes, at most %d are allowed", got, most.stacks)
			}
		})
	}
}

// deep calls f with a deep stack, as the handlers of the gateway are.
func deep(f func()) {
	var frame [4 << 10]byte
	f()
	runtime.KeepAlive(&frame)
}

// inUse returns the bytes of all objects that are reachable, except in pools, and those of
// all stacks.
func inUse() (heap, stacks int64) {
	runtime.GC()
	runtime.GC() // pools keep their memory for one collection
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc), int64(stats.StackInuse)
}
