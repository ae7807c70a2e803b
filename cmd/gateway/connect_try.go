package main

import (
	"context"
	"crypto/tls"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/hostconfig"
	"mcpgateway/internal/upstream/diagnose"
)

// tryTimeout bounds the attempt to reach the URL of an entry.
const tryTimeout = 3 * time.Second

// answer is an answer to a question about a gateway.
type answer byte

const (
	unknown answer = iota
	no
	yes
)

// tryURL warns on standard error if MCP does not answer at the URL of an entry. The entry may be written all the same: the
// gateway may be started later. If MCP answers at /mcp below the URL, tryURL returns the entry with that URL. It also says
// whether the gateway requires credentials.
func tryURL(cmd *cobra.Command, e hostconfig.Entry) (hostconfig.Entry, answer) {
	if e.URL == "" {
		return e, unknown
	}
	shown := e.String()
	is, authenticates, err := isMCP(cmd.Context(), e.URL)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		folded(cmd.ErrOrStderr(), "warning: nothing answers at %s: start the gateway there before the host.\n", shown)
	case err != nil:
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL, which may have a secret
		}
		if at, bad := url.Parse(e.URL); bad == nil && isCertificate(err) {
			err = errors.New(withoutEntry(diagnose.Remote(diagnose.RemoteServer{URL: at}, err)))
		}
		folded(cmd.ErrOrStderr(), "warning: %s cannot be reached: %v\n", shown, err)
	case !is:
		if u, err := url.Parse(e.URL); err == nil && !strings.HasSuffix(u.Path, endpoint.Path) {
			right := hostconfig.Entry{URL: u.JoinPath(endpoint.Path).String()}
			if is, authenticates, err := isMCP(cmd.Context(), right.URL); is && err == nil {
				folded(cmd.ErrOrStderr(), "%s does not speak MCP: connect uses %s, which does.\n", shown, right)
				return right, authenticates
			}
		}
		hint := ""
		if right := mcpURLBehind(cmd.Context(), e.URL); right != "" {
			hint = ": it is the admin address of your gateway, whose MCP URL is " + right
		} else if strings.Contains(e.URL, endpoint.Path+"/") {
			hint = "; after " + endpoint.Path + "/ a gateway expects the name of one of its profiles"
			if near := nearProfile(cmd.Context(), e.URL); near != "" {
				hint += ", such as " + near
			}
		}
		folded(cmd.ErrOrStderr(), "warning: %s does not speak MCP%s.\n", shown, hint)
	}
	return e, authenticates
}

// isCertificate reports whether an error is about the certificate of a server.
func isCertificate(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is
}

// isMCP reports whether what answers at a URL may be MCP, as far as the head of the answer says. A refusal, such as that of a gateway which requires a key, may.
func isMCP(ctx context.Context, at string) (is bool, authenticates answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return false, unknown, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}
	got, err := client.Do(r)
	if err != nil {
		return false, unknown, err
	}
	defer got.Body.Close()
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if got.StatusCode == http.StatusNotFound || got.StatusCode == http.StatusMethodNotAllowed || kind == "text/html" {
		return false, no, nil
	}
	authenticates = no
	if got.StatusCode == http.StatusUnauthorized || got.StatusCode == http.StatusForbidden {
		authenticates = yes
	}
	return true, authenticates, nil
}
