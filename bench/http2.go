package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// http2 is a connection that speaks HTTP/2 over TLS.
type http2 struct {
	ctx       context.Context
	transport *http.Transport
	url       string
	head      string // of the previous request, with its length
	header    http.Header
}

func newHTTP2(ctx context.Context, url string, secure *tls.Config) *http2 {
	h := &http2{ctx: ctx, url: url, transport: &http.Transport{DisableCompression: true, TLSClientConfig: secure.Clone(), Protocols: new(http.Protocols)}}
	h.transport.Protocols.SetHTTP2(true)
	return h
}

// exchange sends a request that is written in the form of HTTP/1.1 and returns
// the response, whose body the caller must close.
func (h *http2) exchange(request []byte) (*http.Response, error) {
	head, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
	if h.head != string(head) {
		h.head = string(head)
		h.header = parseHeader(h.head)
	}
	method, _, _ := strings.Cut(h.head, " ")
	req, err := http.NewRequestWithContext(h.ctx, method, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h.header
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.ProtoMajor != 2 {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return nil, fmt.Errorf("the server answers with %s, want HTTP/2", resp.Proto)
	}
	return resp, nil
}

// parseHeader returns the headers of a request that HTTP/2 has too.
func parseHeader(head string) http.Header {
	header := make(http.Header)
	_, lines, _ := strings.Cut(head, "\r\n")
	for line := range strings.SplitSeq(lines, "\r\n") {
		if key, value, _ := strings.Cut(line, ": "); key != "Host" && key != "Content-Length" {
			header.Set(key, value)
		}
	}
	return header
}
