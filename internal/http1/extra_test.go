package http1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// More headers arrive by both transports, and the shared headers of a request stay as they are.
func TestRoundTripWith(t *testing.T) {
	got := make(chan string, 8)
	s := &rawServer{}
	s.serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			got <- strings.Join(append(r.Header.Values("X-Request-Id"), r.Header.Values("Traceparent")...), " | ") + " " + r.Header.Get("Content-Type")
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	s.tr = New(&http.Transport{DisableCompression: true})
	defer s.tr.CloseIdleConnections()
	for name, tc := range map[string]struct {
		extra  []Field
		change func(r *http.Request)
		want   string
	}{
		"none":                      {[]Field{{Name: "X-Request-Id"}}, func(*http.Request) {}, " text/plain"},
		"own connection":            {[]Field{{"X-Request-Id", "r1"}}, func(*http.Request) {}, "r1 text/plain"},
		"net/http":                  {[]Field{{"X-Request-Id", "r2"}}, func(r *http.Request) { r.Close = true }, "r2 text/plain"},
		"set already":               {[]Field{{"X-Request-Id", "r3"}}, func(r *http.Request) { r.Header["X-Request-Id"] = []string{"mine"} }, "mine text/plain"},
		"two":                       {[]Field{{"X-Request-Id", "r5"}, {"Traceparent", "00"}, {"Baggage", ""}}, func(*http.Request) {}, "r5 | 00 text/plain"},
		"two, net/http":             {[]Field{{"X-Request-Id", "r6"}, {"Traceparent", "00"}}, func(r *http.Request) { r.Close = true }, "r6 | 00 text/plain"},
		"set already, and net/http": {[]Field{{"X-Request-Id", "r4"}}, func(r *http.Request) { r.Header["X-Request-Id"], r.Close = []string{"mine"}, true }, "mine text/plain"},
	} {
		t.Run(name, func(t *testing.T) {
			r := (&http.Request{Method: http.MethodGet, URL: s.url, Header: http.Header{"Content-Type": {"text/plain"}}}).WithContext(t.Context())
			tc.change(r)
			headers := len(r.Header)
			resp, err := s.tr.RoundTripWith(r, tc.extra...)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			equal(t, "headers", <-got, tc.want)
			equal(t, "headers of the request", len(r.Header), headers)
		})
	}
	r, _ := s.request(t.Context(), 2)
	if _, err := s.tr.RoundTripWith(r, Field{"X-Request-Id", "a\r\nEvil: 1"}); err == nil {
		t.Error("a value with a line end was sent")
	}
}
