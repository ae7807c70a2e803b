package http1

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

var fastResponse = []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sat, 21 Nov 2026 19:00:00 GMT\r\nContent-Length: 2\r\n\r\n{}")

// serveFast answers each request with the same bytes.
func serveFast(c net.Conn) {
	buf := make([]byte, 4096)
	for {
		if _, err := c.Read(buf); err != nil { // a small request arrives in one read
			return
		}
		if _, err := c.Write(fastResponse); err != nil {
			return
		}
	}
}

// BenchmarkRoundTrip measures a small POST from many goroutines, including the
// server. The server is the same for both, so the difference is the gain of this
// package.
func BenchmarkRoundTrip(b *testing.B) {
	for name, wrap := range map[string]func(t *http.Transport) http.RoundTripper{
		"http1":   func(t *http.Transport) http.RoundTripper { return New(t) },
		"nethttp": func(t *http.Transport) http.RoundTripper { return t },
	} {
		b.Run(name, func(b *testing.B) {
			s := &rawServer{}
			s.serve(b, serveFast)
			tr := wrap(&http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64})
			defer tr.(interface{ CloseIdleConnections() }).CloseIdleConnections()
			b.ReportAllocs()
			b.SetParallelism(8)
			before := cpuTime()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r := (&http.Request{
						Method: http.MethodPost, URL: s.url, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2,
					}).WithContext(b.Context())
					resp, err := tr.RoundTrip(r)
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
