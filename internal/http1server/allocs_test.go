//go:build !race

// The race detector makes sync.Pool drop values at random, which changes the number of
// allocations.

package http1server

import (
	"net"
	"net/http"
	"runtime"
	"testing"
)

// requestAllocs bounds the allocations of one request and its answer: the request, its
// head as a string, its headers, and what it reads. Raise it only if the cost is a decision.
const requestAllocs = 6

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

// streamMemory bounds the heap of a connection with a silent stream and of its client, in
// bytes.
const streamMemory = 6 << 10

// A connection keeps no buffers while its answer is a stream on which nothing happens.
func TestMemoryOfSilentStreams(t *testing.T) {
	const streams = 200
	silent := make(chan struct{})
	address := serve(t, New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = jsonType
		w.(http.Flusher).Flush()
		<-silent
	}))), nil)
	t.Cleanup(func() { close(silent) }) // before the server ends
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
	before := heapInUse()
	for range streams {
		open()
	}
	if got := (int64(heapInUse()) - int64(before)) / streams; got > streamMemory {
		t.Errorf("a silent stream holds %d bytes, at most %d are allowed", got, streamMemory)
	}
}

// heapInUse returns the bytes of all objects that are reachable, except in pools.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // pools keep their memory for one collection
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
