package http1server

import (
	"fmt"
	"net/http"
)

// serveBounded is the handler of the http.Server. It refuses requests with a too large header.
func (s *Server) serveBounded(w http.ResponseWriter, r *http.Request) {
	if headerSize(r) <= s.maxHeader {
		s.handler.ServeHTTP(w, r)
		return
	}
	if s.OnLargeHeader != nil {
		s.OnLargeHeader(w, r)
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // as net/http does: the client may send as much again
	}
	http.Error(w, fmt.Sprintf("431 Request Header Fields Too Large: the header is larger than %d bytes", s.maxHeader), http.StatusRequestHeaderFieldsTooLarge)
}

// headerSize returns how many bytes the target and the fields of a request have in HTTP/1.1.
func headerSize(r *http.Request) int {
	const perField = len(": \r\n")
	n := len(r.RequestURI) + len("Host") + len(r.Host) + perField
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v) + perField
		}
	}
	return n
}
