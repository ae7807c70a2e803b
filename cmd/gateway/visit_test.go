package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The server at --url has no entry in gateway.yaml, so the advice is to add one.
func TestOAuthServerAtURL(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://`+r.Host+`/.well-known/oauth-protected-resource"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	for _, args := range [][]string{{"list"}, {"call", "find"}} {
		var out, errs bytes.Buffer
		status := run(append(args, "--url", server.URL+"/mcp"), strings.NewReader(""), &out, &errs)
		if want := "this server uses OAuth: add it with gateway add NAME URL --oauth, then run gateway login NAME\n"; status != exitFailed || !strings.HasSuffix(errs.String(), want) {
			t.Errorf("%s: status %d, %q, want …%q", args, status, errs.String(), want)
		}
	}
}

// The keys headers and auth are of upstreams, and the server at --url is none.
func TestCredentialsForServerAtURL(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	var out, errs bytes.Buffer
	status := run([]string{"list", "--url", server.URL + "/mcp"}, strings.NewReader(""), &out, &errs)
	if want := "it wants credentials; give them with --header 'Authorization: Bearer KEY'\n"; status != exitFailed || !strings.HasSuffix(errs.String(), want) {
		t.Errorf("status %d, %q, want …%q", status, errs.String(), want)
	}
}

// The key ca is of upstreams, which the server at --url is not.
func TestUntrustedServerAtURL(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	var out, errs bytes.Buffer
	status := run([]string{"list", "--url", server.URL + "/mcp"}, strings.NewReader(""), &out, &errs)
	if want := "make this machine trust that authority, on Linux with SSL_CERT_FILE=FILE\n"; status != exitFailed || !strings.HasSuffix(errs.String(), want) {
		t.Errorf("status %d, %q, want …%q", status, errs.String(), want)
	}
}
