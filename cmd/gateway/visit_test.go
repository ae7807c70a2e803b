package main

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
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
		if want := "it wants credentials; give them with --header 'Authorization: Bearer KEY', or, since it uses OAuth, add it with gateway add NAME URL --oauth, then run gateway login NAME\n"; status != exitFailed || !strings.HasSuffix(errs.String(), want) {
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

// Advice about refused credentials is about --header, and names the scopes that the server demands.
func TestRefusedCredentialsAtURL(t *testing.T) {
	expired, scope := "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		message := wire.ValueOf(body)
		w.Header().Set("Content-Type", "application/json")
		answer := func(status int, member string) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(message.Get("id").Raw())+`,`+member+`}`)
		}
		metadata := `resource_metadata="http://` + r.Host + `/.well-known/oauth-protected-resource"`
		switch method := message.Get("method").Str(); {
		case expired != "":
			w.Header().Set("WWW-Authenticate", "Bearer "+metadata)
			answer(http.StatusUnauthorized, `"error":{"code":-32001,"message":"`+expired+`"}`)
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case !message.Get("id").Exists():
			w.WriteHeader(http.StatusAccepted)
		case method == wire.MethodInitialize:
			answer(http.StatusOK, `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
		case method == wire.MethodToolsList:
			answer(http.StatusOK, `"result":{"tools":[{"name":"write","inputSchema":{"type":"object"}}]}`)
		case method == wire.MethodToolsCall:
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+scope+`", `+metadata)
			answer(http.StatusForbidden, `"error":{"code":-32600,"message":"you may not write s3cret"}`)
		default:
			answer(http.StatusOK, `"error":{"code":-32601,"message":"no such method"}`)
		}
	}))
	defer server.Close()
	at := server.URL + "/mcp"
	const forbidden = ` answered HTTP 403 ("you may not write s3cret")` // the arguments are those of the user
	for _, tt := range []struct{ expired, scope, want string }{
		{"the API key has expired", "", at + ` answered HTTP 401 ("the API key has expired"): the credentials of --header are not accepted; check that they are the right ones and have not expired`},
		{"", "notes:write", at + forbidden + ": the credentials of --header lack the scope notes:write (insufficient_scope)"},
		{"", "a b", at + forbidden + ": the credentials of --header lack one of the scopes a, b (insufficient_scope)"},
		{"", "", at + forbidden + ": it knows who is asking and refuses; check the rights of the credentials of --header, and whether it lets this machine in"},
	} {
		expired, scope = tt.expired, tt.scope
		var out, errs bytes.Buffer
		status := run([]string{"call", "write", "--url", at, "--header", "Authorization: Bearer k"}, strings.NewReader(""), &out, &errs)
		if want := "gateway: " + tt.want + "\n"; status != exitFailed || errs.String() != want {
			t.Errorf("status %d, %q, want %q", status, errs.String(), want)
		}
	}
}

// The lists of a gateway at --url may be old, or empty for these credentials: the output says so.
func TestListsOfAGatewayAtURL(t *testing.T) {
	tools := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		message := wire.ValueOf(body)
		w.Header().Set("Content-Type", "application/json")
		answer := func(member string) {
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(message.Get("id").Raw())+`,`+member+`}`)
		}
		switch method := message.Get("method").Str(); {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case !message.Get("id").Exists():
			w.WriteHeader(http.StatusAccepted)
		case method == wire.MethodInitialize:
			answer(`"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
		case method == wire.MethodToolsList:
			answer(`"result":` + tools)
		default:
			answer(`"error":{"code":-32601,"message":"no such method"}`)
		}
	}))
	defer server.Close()
	const lost = `"_meta":{"mcpgateway/unavailable":[{"upstream":"tickets","reason":"tools/list: refused"}]}`
	for _, tt := range []struct{ tools, want string }{
		{`{"tools":[{"name":"tickets__whoami","inputSchema":{"type":"object"}}],` + lost + `}`, "warning: the items of tickets may be out of date: tools/list: refused\n"},
		{`{"tools":[{"name":"tickets-old__whoami","inputSchema":{"type":"object"}}],` + lost + `}`, "warning: tickets is missing: tools/list: refused\n"},
		{`{"tools":[],` + lost + `}`, "warning: tickets is missing: tools/list: refused\n"},
		{`{"tools":[]}`, "note: the server lists nothing for these credentials; if it is a gateway, its policy may allow them nothing: there, gateway check finds a policy without rules that allow\n"},
	} {
		tools = tt.tools
		var out, errs bytes.Buffer
		status := run([]string{"list", "tools", "--url", server.URL + "/mcp", "--header", "X-Key: k"}, strings.NewReader(""), &out, &errs)
		if status != exitDone || errs.String() != tt.want {
			t.Errorf("%s: status %d, %q, want %q", tt.tools, status, errs.String(), tt.want)
		}
	}
	var out, errs bytes.Buffer
	if run([]string{"list", "--url", server.URL + "/mcp"}, strings.NewReader(""), &out, &errs); errs.String() != "" {
		t.Errorf("without credentials: %q", errs.String())
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

// A server that refuses a request without credentials does not know who is asking.
func TestForbiddenWithoutCredentials(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	var out, errs bytes.Buffer
	status := run([]string{"list", "--url", server.URL + "/mcp"}, strings.NewReader(""), &out, &errs)
	want := "it refuses a request without credentials, or does not let this machine in; if it wants credentials, give them with --header 'Authorization: Bearer KEY'\n"
	if status != exitFailed || !strings.HasSuffix(errs.String(), want) {
		t.Errorf("status %d, %q, want …%q", status, errs.String(), want)
	}
}

// A call whose connection broke has reached the server, although the server is gone by now.
func TestDownText(t *testing.T) {
	const gone = "nothing listens on 127.0.0.1:1: start the server"
	const url = "http://127.0.0.1:1/mcp"
	for _, tc := range []struct {
		url, reason, why string
		answered         bool
		want             string
	}{
		{url, "the server is down", gone, false, gone},
		{url, "the server is down", gone, true, "the server answered before and has ended the connection since, as one that shuts down; now " + gone},
		{url, "the server is down", "there is no way to it", true, "there is no way to it"},
		{url, protocol.ReasonConnectionBroken, gone, true, protocol.ReasonConnectionBroken + "; now " + gone},
		{"", protocol.ReasonConnectionBroken, gone, true, protocol.ReasonConnectionBroken + "; now upstream a is down: " + gone},
	} {
		o := callOptions{visitOptions: visitOptions{url: tc.url}}
		if got := o.downText("upstream a is down: ", tc.reason, tc.why, tc.answered); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.url, got, tc.want)
		}
	}
}

// A server that answered before and shuts down is no server that was never there.
func TestServerAtURLShutsDown(t *testing.T) {
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		message := wire.ValueOf(body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close")
		member := `"error":{"code":-32601,"message":"no such method"}`
		switch message.Get("method").Str() {
		case wire.MethodInitialize:
			member = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		case wire.MethodToolsList:
			server.Listener.Close()
			member = `"error":{"code":-32603,"message":"the gateway is shutting down: the call was ended"}`
		}
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case !message.Get("id").Exists():
			w.WriteHeader(http.StatusAccepted)
		default:
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(message.Get("id").Raw())+`,`+member+`}`)
		}
	}))
	defer server.Close()
	var out, errs bytes.Buffer
	status := run([]string{"call", "find", "--url", server.URL + "/mcp"}, strings.NewReader(""), &out, &errs)
	want := "gateway: the server answered before and has ended the connection since, as one that shuts down; now nothing listens on " + server.Listener.Addr().String() + ": "
	if status != exitFailed || !strings.HasPrefix(errs.String(), want) {
		t.Errorf("status %d, %q, want %q…", status, errs.String(), want)
	}
}

// A server that accepts connections and answers nothing is named as such: there is no download to wait for.
func TestSilentServerAtURL(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var out, errs bytes.Buffer
	status := run([]string{"list", "--timeout", "100ms", "--url", "http://" + silent.Addr().String() + "/mcp"}, strings.NewReader(""), &out, &errs)
	want := "it has not answered within 100ms: check that an MCP server is at work there; if it is slow, raise --timeout\n"
	if status != exitFailed || !strings.HasSuffix(errs.String(), want) {
		t.Errorf("status %d, %q, want …%q", status, errs.String(), want)
	}
}
