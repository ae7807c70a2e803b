package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/hostconfig"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/instance"
)

// connect warns of a URL without MCP, and uses the URL below it that has MCP.
func TestTryURL(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	})
	s := httptest.NewServer(mux)
	gone := httptest.NewServer(mux)
	gone.Close()
	untrusted := httptest.NewTLSServer(mux)
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	t.Cleanup(untrusted.Close)
	state := filepath.Join(t.TempDir(), "s")
	t.Setenv("XDG_STATE_HOME", state)
	socket, err := instance.Listen(config.Default(lookupEnv).StateDir)
	if err != nil {
		t.Fatal(err)
	}
	status := inspect.Status{URL: s.URL + "/mcp", Profiles: []inspect.ProfileStatus{{Name: "default"}, {Name: "coding"}}}
	own := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(status) }))
	own.Listener.Close()
	own.Listener = socket
	own.Start()
	t.Cleanup(own.Close)
	for url, want := range map[string]string{
		"":                    "",
		s.URL + "/mcp":        "",
		s.URL:                 s.URL + " does not speak MCP: connect uses " + s.URL + "/mcp, which does.\n",
		s.URL + "/?key=k3y":   s.URL + "/ does not speak MCP: connect uses " + s.URL + "/mcp, which does.\n",
		s.URL + "/page":       "warning: " + s.URL + "/page does not speak MCP.\n",
		s.URL + "/mcp/codng":  "warning: " + s.URL + "/mcp/codng does not speak MCP; after /mcp/ a gateway expects the name of one of its profiles, such as coding.\n",
		s.URL + "/mcp/ops":    "warning: " + s.URL + "/mcp/ops does not speak MCP; after /mcp/ a gateway expects the name of one of its profiles.\n",
		gone.URL + "/mcp?k=1": "warning: nothing answers at " + gone.URL + "/mcp: start the gateway there before the host.\n",
		untrusted.URL + "/mcp": "warning: " + untrusted.URL + "/mcp cannot be reached: the certificate of " + strings.TrimPrefix(untrusted.URL, "https://") +
			" is signed by an authority that is not trusted here: make this machine trust that authority, on Linux with SSL_CERT_FILE=FILE\n",
	} {
		var got bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetErr(&got)
		cmd.SetContext(t.Context())
		tried, authenticates := tryURL(cmd, hostconfig.Entry{URL: url})
		if got.String() != want {
			t.Errorf("%s: %q, want %q", url, got.String(), want)
		}
		right := url
		if strings.Contains(want, "connect uses") {
			right = strings.Replace(url, s.URL, s.URL+"/mcp", 1)
			right = strings.Replace(right, "/mcp/", "/mcp", 1)
		}
		if tried.URL != right {
			t.Errorf("%s: uses %s, want %s", url, tried.URL, right)
		}
		requires := unknown
		switch {
		case strings.Contains(want, " does not speak MCP") && right == url:
			requires = no // of what is no gateway, nobody has a key
		case strings.HasPrefix(right, s.URL+"/mcp"):
			requires = yes
		}
		if authenticates != requires {
			t.Errorf("%s: requires credentials: %v", url, authenticates)
		}
	}
}
